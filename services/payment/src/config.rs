//! Wiring: where the neighbours are. What governs traffic is a rule and not here.

use chassis::{
    ConfigError, Env, crash, dev_secrets,
    env::{bad, check_secret},
};
use contracts::Service;
use events::KafkaConfig;

use crate::{http::signature::Secrets, workflow::CRASH_POINTS};

#[derive(Debug, Clone)]
pub struct Config {
    /// `DATABASE_URL`: the service's own database, `postgres://postgres@127.0.0.1:15432/payment` by default, where
    /// `./dev up` puts it.
    pub database_url: String,
    /// `KAFKA_BOOTSTRAP`, `host:port` (127.0.0.1:19092), and `KAFKA_TOPIC_PREFIX` (empty), for several systems on one
    /// Kafka.
    pub kafka: KafkaConfig,
    /// `PROVIDER_PRIMARY_URL`: the provider's primary channel, by default the simulator of `./dev up`.
    pub provider_primary_url: String,
    /// `PROVIDER_BACKUP_URL`: its backup channel.
    pub provider_backup_url: String,
    /// `WEBHOOK_SECRETS`: what the provider signs webhooks with, several with commas while keys rotate.
    pub webhook_secrets: Secrets,
}

impl Config {
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        crash::arm(env, Service::Payment, CRASH_POINTS)?;
        let mut kafka = KafkaConfig::new(env.kafka_bootstrap()?, Service::Payment.as_str());
        kafka.topic_prefix = env.get("KAFKA_TOPIC_PREFIX").unwrap_or_default();
        Ok(Self {
            database_url: env.database_url(Service::Payment)?,
            kafka,
            provider_primary_url: env.url_or("PROVIDER_PRIMARY_URL", "http://127.0.0.1:8086")?,
            provider_backup_url: env.url_or("PROVIDER_BACKUP_URL", "http://127.0.0.1:8087")?,
            webhook_secrets: webhook_secrets(env)?,
        })
    }
}

fn webhook_secrets(env: &mut Env) -> Result<Secrets, ConfigError> {
    const VARIABLE: &str = "WEBHOOK_SECRETS";
    let dev = env.is_dev()?;
    let list = match env.get(VARIABLE) {
        Some(list) => list,
        None if dev => dev_secrets::WEBHOOK_SECRET.to_owned(),
        None => return Err(bad(VARIABLE, "is required unless APP_ENV=dev")),
    };
    let secrets: Vec<String> = list.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect();
    if secrets.is_empty() {
        return Err(bad(VARIABLE, "names no secret"));
    }
    if !dev {
        secrets.iter().try_for_each(|secret| check_secret(VARIABLE, secret))?;
    }
    Ok(Secrets::new(secrets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Secrets, ConfigError> {
        webhook_secrets(&mut Env::from_pairs(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()))))
    }

    #[test]
    fn outside_dev_every_secret_of_webhooks_has_to_be_there_long_and_not_well_known() {
        let (one, other) = ("w".repeat(32), "v".repeat(32));
        let listed = |more: &str| format!("{one}, {more}");
        let production = ("APP_ENV", "production");
        assert!(read(&[production, ("WEBHOOK_SECRETS", &listed(&other))]).is_ok());
        for list in
            ["", ",", "short", dev_secrets::WEBHOOK_SECRET, &listed(dev_secrets::WEBHOOK_SECRET), &listed("short")]
        {
            let refused = read(&[production, ("WEBHOOK_SECRETS", list)]).unwrap_err();
            assert_eq!(refused.variable, "WEBHOOK_SECRETS", "{list}");
            assert!(!refused.to_string().contains(&one), "{refused}");
        }
        // An environment that nobody named is no development.
        assert!(read(&[("WEBHOOK_SECRETS", dev_secrets::WEBHOOK_SECRET)]).is_err());
        assert!(read(&[]).is_err());
        assert!(read(&[("APP_ENV", "dev")]).is_ok());
        assert!(read(&[("APP_ENV", "dev"), ("WEBHOOK_SECRETS", dev_secrets::WEBHOOK_SECRET)]).is_ok());
    }
}
