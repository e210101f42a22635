//! The wiring that is the console's own: its database, who may get in, whom it watches and whom it asks.

use chassis::{ConfigError, Env, dev_secrets, env::bad};
use contracts::{Service, service::DEFAULT_PORT_BASE};
use events::KafkaConfig;

use crate::{
    domain::{
        operators::Operators,
        target::{Group, Target, Targets},
    },
    downstream::{Addresses, Secret},
};

#[derive(Debug, Clone)]
pub struct Config {
    /// `DATABASE_URL`: the console's own database; by default the one that a local system has.
    pub database_url: String,
    /// `CONSOLE_OPERATORS`: `name:password,…`; in dev one of them by default, outside required.
    pub operators: Operators,
    /// `CONSOLE_TARGETS`: `order-0=http://host:9080,…` or, where instances come and go, `order=http://name:9080,…`; or
    /// `none`
    pub targets: Targets,
    pub callees: Addresses,
    /// `KAFKA_BOOTSTRAP`, `KAFKA_TOPIC_PREFIX`: where dead letters are.
    pub kafka: KafkaConfig,
    /// `APP_ENV=dev`: without TLS, so that a cookie has to travel without.
    pub is_dev: bool,
}

const TARGETS: &str = "CONSOLE_TARGETS";
/// An empty variable counts as unset.
const NOBODY: &str = "none";
const OPERATORS: &str = "CONSOLE_OPERATORS";
const LINKS: &str = "LINKS_ADMIN_URL";

impl Config {
    /// The defaults are those of a local system with one replica a service, without links.
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        let is_dev = env.is_dev()?;
        let local = |port: u16| format!("http://127.0.0.1:{port}");
        let operators = match env.get(OPERATORS) {
            Some(list) => list,
            None if is_dev => format!("operator:{}", dev_secrets::OPERATOR_PASSWORD),
            None => return Err(bad(OPERATORS, "is required unless APP_ENV=dev")),
        };
        let first_replicas = || {
            let target = |s: Service| format!("{s}-0={}", local(s.admin_port(DEFAULT_PORT_BASE, 0)));
            Service::ALL.map(target).join(",")
        };
        let targets = env.get(TARGETS).unwrap_or_else(first_replicas);
        let mut sibling =
            |variable, service: Service| env.url_or(variable, &local(service.api_port(DEFAULT_PORT_BASE, 0)));
        let order_url = sibling("ORDER_URL", Service::Order)?;
        let payment_url = sibling("PAYMENT_URL", Service::Payment)?;
        let coupon_url = sibling("COUPON_URL", Service::Coupon)?;
        let links_admin_url = match env.get(LINKS) {
            Some(url) => Some(env.url_or(LINKS, &url)?),
            None => None,
        };
        let users_secret = Secret::new(env.secret("AUTH_JWT_SECRET", dev_secrets::AUTH_JWT_SECRET)?);
        let mut kafka = KafkaConfig::new(env.kafka_bootstrap()?, Service::Console.as_str());
        kafka.topic_prefix = env.get("KAFKA_TOPIC_PREFIX").unwrap_or_default();
        Ok(Self {
            database_url: env.database_url(Service::Console)?,
            operators: Operators::parse(&operators, is_dev)?,
            targets: self::targets(&targets)?,
            callees: Addresses { order_url, payment_url, coupon_url, links_admin_url, users_secret },
            kafka,
            is_dev,
        })
    }
}

/// `order-0=http://127.0.0.1:9080,…`: an instance is called after its service, with a number; without one, the service is
/// wherever the name leads.
fn targets(list: &str) -> Result<Targets, ConfigError> {
    let mut targets = Targets::default();
    if list == NOBODY {
        return Ok(targets);
    }
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let twice = |name: &str| bad(TARGETS, format!("names {name} twice"));
        if let Some(group) = group(entry) {
            if targets.has(&group.service) {
                return Err(twice(&group.service));
            }
            targets.groups.push(group);
            continue;
        }
        let target = target(entry).ok_or_else(|| {
            bad(
                TARGETS,
                format!("`{entry}` is neither of the form order-0=http://host:port nor order=http://name:port"),
            )
        })?;
        let grouped = targets.groups.iter().any(|known| known.service == target.service);
        if grouped || targets.fixed.iter().any(|known| known.instance == target.instance) {
            return Err(twice(if grouped { &target.service } else { &target.instance }));
        }
        targets.fixed.push(target);
    }
    Ok(targets)
}

fn target(entry: &str) -> Option<Target> {
    let (instance, url) = entry.split_once('=')?;
    let (service, number) = instance.rsplit_once('-')?;
    number.parse::<u16>().ok()?;
    service.parse::<Service>().ok()?;
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?.trim_end_matches('/');
    let url = url.trim_end_matches('/').to_owned();
    (!host.is_empty()).then(|| Target { service: service.to_owned(), instance: instance.to_owned(), url })
}

/// Each address is asked as itself, which no certificate is for: not by `https`.
fn group(entry: &str) -> Option<Group> {
    let (service, url) = entry.split_once('=')?;
    service.parse::<Service>().ok()?;
    let host = url.strip_prefix("http://")?.trim_end_matches('/');
    let (name, port) = host.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    is_name.then(|| Group { service: service.to_owned(), host: host.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::from_env(&mut Env::from_pairs(pairs))
    }

    #[test]
    fn a_local_system_is_known_without_a_word() {
        let config = config(&[("APP_ENV", "dev")]).unwrap();
        assert_eq!(config.targets.fixed.len(), Service::ALL.len());
        assert_eq!(config.targets.fixed[0].url, "http://127.0.0.1:9080");
        assert_eq!(config.callees.payment_url, "http://127.0.0.1:8082");
        assert_eq!(config.callees.links_admin_url, None);
        assert_eq!(config.operators.find("operator", "operator-in-development"), Some("operator"));
    }

    #[test]
    fn outside_dev_it_does_not_start_on_what_everybody_knows() {
        let secret = "a-secret-of-more-than-32-bytes-for-users";
        let with = |operators: &str| config(&[("AUTH_JWT_SECRET", secret), (OPERATORS, operators)]);
        assert_eq!(config(&[("AUTH_JWT_SECRET", secret)]).unwrap_err().variable, OPERATORS);
        assert_eq!(with("operator:operator-in-development").unwrap_err().variable, OPERATORS);
        assert_eq!(with("ada:short").unwrap_err().variable, OPERATORS);
        assert_eq!(config(&[(OPERATORS, "ada:a long enough one")]).unwrap_err().variable, "AUTH_JWT_SECRET");
        assert!(!with("ada:a long enough one").unwrap().is_dev);
    }

    #[test]
    fn targets_are_instances_with_an_address_each() {
        let read = targets("order-0=http://a:1/, payment-12=https://b").unwrap().fixed;
        let shown: Vec<_> = read.iter().map(|t| (t.service.as_str(), t.instance.as_str(), t.url.as_str())).collect();
        assert_eq!(shown, [("order", "order-0", "http://a:1"), ("payment", "payment-12", "https://b")]);
        for list in ["order-0", "mail-0=http://a", "order-x=http://a", "order-0=ftp://a", "order-0=http:///"] {
            assert_eq!(targets(list).unwrap_err().variable, TARGETS, "{list}");
        }
        assert_eq!(targets("none").unwrap(), Targets::default());
        assert!(targets("order-0=http://a,order-0=http://b").unwrap_err().reason.contains("twice"));
    }

    #[test]
    fn a_service_without_a_number_is_wherever_its_name_leads() {
        let read = targets("order=http://orders.shop.svc:9080/,payment-0=http://p:1").unwrap();
        assert_eq!(read.groups, [Group { service: "order".to_owned(), host: "orders.shop.svc:9080".to_owned() }]);
        assert_eq!(read.fixed.len(), 1);
        for list in [
            "order=http://a",
            "order=https://a:1",
            "order=http://:1",
            "order=http://a:x",
            "order=http://a/b:1",
            "mail=http://a:1",
        ] {
            assert_eq!(targets(list).unwrap_err().variable, TARGETS, "{list}");
        }
        for list in ["order=http://a:1,order-0=http://b:1", "order-0=http://b:1,order=http://a:1"] {
            assert_eq!(targets(list).unwrap_err().reason, "names order twice", "{list}");
        }
    }

    #[test]
    fn no_secret_is_shown_by_accident() {
        let config = config(&[("APP_ENV", "dev"), (OPERATORS, "ada:hunter2"), ("AUTH_JWT_SECRET", "s3cret")]).unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("s3cret"), "{shown}");
    }
}
