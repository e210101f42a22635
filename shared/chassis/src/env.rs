//! Configuration from the environment: wiring and secrets only, read once, each mistake named by its variable.

use std::{collections::BTreeMap, fmt::Display, str::FromStr, time::Duration};

use contracts::Service;

use crate::dev_secrets;

/// Stops the start with one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {reason}")]
pub struct ConfigError {
    pub variable: String,
    pub reason: String,
}

/// A snapshot of the environment that remembers which variables were asked for.
#[derive(Debug, Clone)]
pub struct Env {
    values: BTreeMap<String, String>,
    known: Vec<String>,
}

impl Env {
    /// The environment of this process. A variable that is not UTF-8 counts as absent: none of ours can be that.
    #[must_use]
    pub fn from_process() -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::from_pairs(std::env::vars_os().filter_map(utf8))
    }

    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { values: pairs.into_iter().collect(), known: Vec::new() }
    }

    /// The value of `variable`; an empty one counts as unset, since compose files pass those on.
    pub fn get(&mut self, variable: &str) -> Option<String> {
        self.known.push(variable.to_owned());
        self.values.get(variable).filter(|value| !value.is_empty()).cloned()
    }

    pub fn parse_or<T: FromStr<Err: Display>>(&mut self, variable: &str, default: T) -> Result<T, ConfigError> {
        match self.get(variable) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|e: T::Err| bad(variable, format!("`{text}`: {e}"))),
        }
    }

    /// An `http://` base address, without the slash at its end.
    pub fn url_or(&mut self, variable: &str, default: &str) -> Result<String, ConfigError> {
        let text = self.get(variable).unwrap_or_else(|| default.to_owned());
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        match rest.map(|rest| rest.trim_end_matches('/')) {
            Some(host) if !host.is_empty() => Ok(text.trim_end_matches('/').to_owned()),
            _ => Err(bad(variable, format!("`{text}` is no http:// or https:// address"))),
        }
    }

    /// `DATABASE_URL`: the service's own database; by default the one of that name that a local system has.
    pub fn database_url(&mut self, service: Service) -> Result<String, ConfigError> {
        const VARIABLE: &str = "DATABASE_URL";
        let text = self.get(VARIABLE).unwrap_or_else(|| format!("postgres://postgres@127.0.0.1:15432/{service}"));
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        match rest.and_then(|rest| rest.split_once('/')) {
            Some((host, database)) if !host.is_empty() && !database.is_empty() => Ok(text),
            // The text may hold a password; it is not repeated.
            _ => Err(bad(VARIABLE, "is not of the form postgres://user@host:port/database")),
        }
    }

    /// `KAFKA_BOOTSTRAP`: `host:port`, several separated by commas; by default the local broker.
    pub fn kafka_bootstrap(&mut self) -> Result<String, ConfigError> {
        const VARIABLE: &str = "KAFKA_BOOTSTRAP";
        let text = self.get(VARIABLE).unwrap_or_else(|| "127.0.0.1:19092".to_owned());
        let is_address = |entry: &str| {
            entry.trim().rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if text.split(',').all(is_address) {
            Ok(text)
        } else {
            Err(bad(VARIABLE, format!("`{text}` is not of the form host:port,host:port")))
        }
    }

    pub fn millis_or(&mut self, variable: &str, default: Duration) -> Result<Duration, ConfigError> {
        let default = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        self.parse_or(variable, default).map(Duration::from_millis)
    }

    /// `APP_ENV`: `dev`, or `production` when unset, so that nobody runs on development secrets by forgetting.
    pub fn is_dev(&mut self) -> Result<bool, ConfigError> {
        match self.get("APP_ENV").as_deref() {
            Some("dev") => Ok(true),
            None | Some("production") => Ok(false),
            Some(other) => Err(bad("APP_ENV", format!("`{other}` is neither dev nor production"))),
        }
    }

    /// A secret. In dev it has a well-known default; outside it is required, at least 32 bytes, and not well known.
    pub fn secret(&mut self, variable: &str, dev_default: &str) -> Result<String, ConfigError> {
        let dev = self.is_dev()?;
        match self.get(variable) {
            None if dev => Ok(dev_default.to_owned()),
            None => Err(bad(variable, "is required unless APP_ENV=dev")),
            Some(secret) => {
                if !dev {
                    check_secret(variable, &secret)?;
                }
                Ok(secret)
            }
        }
    }

    /// Refuses variables that are a slip of the finger away from a known one: they would silently do nothing.
    pub fn refuse_misspelt(&self) -> Result<(), ConfigError> {
        for name in self.values.keys().filter(|name| !self.known.contains(name)) {
            if let Some(meant) = self.known.iter().find(|known| known.len() >= 6 && one_slip_apart(name, known)) {
                return Err(bad(name, format!("is not a variable of this service; {meant} was probably meant")));
            }
        }
        Ok(())
    }
}

/// A secret that protects something real.
pub fn check_secret(variable: &str, secret: &str) -> Result<(), ConfigError> {
    if dev_secrets::is_well_known(secret) {
        return Err(bad(variable, "is a well-known development secret, which only APP_ENV=dev may use"));
    }
    if secret.len() < 32 {
        return Err(bad(variable, "is shorter than 32 bytes"));
    }
    Ok(())
}

pub fn bad(variable: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError { variable: variable.to_owned(), reason: reason.into() }
}

/// Whether one letter more, less, other or swapped with its neighbour makes `a` into `b`.
fn one_slip_apart(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (rest_a, rest_b) = (&a[same..], &b[same..]);
    match (rest_a, rest_b) {
        ([_, tail_a @ ..], _) if tail_a == rest_b => true,
        (_, [_, tail_b @ ..]) if tail_b == rest_a => true,
        ([_, tail_a @ ..], [_, tail_b @ ..]) if tail_a == tail_b => true,
        ([x1, x2, tail_a @ ..], [y1, y2, tail_b @ ..]) => x1 == y2 && x2 == y1 && tail_a == tail_b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        Env::from_pairs(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    #[test]
    fn a_bad_value_is_named_by_its_variable() {
        let error = env(&[("API_ADDR", "here")])
            .parse_or::<std::net::SocketAddr>("API_ADDR", ([127, 0, 0, 1], 1).into())
            .unwrap_err();
        assert_eq!(error.variable, "API_ADDR");
        assert_eq!(env(&[("APP_ENV", "prod")]).is_dev().unwrap_err().variable, "APP_ENV");
        assert_eq!(
            env(&[("PAYMENT_URL", "payment:80")]).url_or("PAYMENT_URL", "").unwrap_err().variable,
            "PAYMENT_URL"
        );
    }

    #[test]
    fn addresses_of_stores_are_checked_and_passwords_not_repeated() {
        for bad in ["localhost", "postgres://", "postgres://host", "mysql://u:secret@h/db", "postgres://u:secret@h/"] {
            let error = env(&[("DATABASE_URL", bad)]).database_url(Service::Order).unwrap_err();
            assert_eq!(error.variable, "DATABASE_URL");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(env(&[]).database_url(Service::Order).unwrap().ends_with("/order"));
        for bad in ["kafka", "kafka:", "kafka:port", ":9092", "a:1,b", "a:1,"] {
            assert_eq!(env(&[("KAFKA_BOOTSTRAP", bad)]).kafka_bootstrap().unwrap_err().variable, "KAFKA_BOOTSTRAP");
        }
        assert!(env(&[("KAFKA_BOOTSTRAP", "a:1, b:2")]).kafka_bootstrap().is_ok());
    }

    #[test]
    fn well_known_and_short_secrets_are_refused_outside_dev() {
        let secret = |pairs| env(pairs).secret("AUTH_JWT_SECRET", dev_secrets::AUTH_JWT_SECRET);
        assert!(secret(&[("APP_ENV", "dev")]).is_ok());
        assert!(secret(&[("APP_ENV", "dev"), ("AUTH_JWT_SECRET", "short")]).is_ok());
        assert!(secret(&[]).is_err());
        assert!(secret(&[("AUTH_JWT_SECRET", "short")]).is_err());
        assert!(secret(&[("AUTH_JWT_SECRET", dev_secrets::AUTH_JWT_SECRET)]).is_err());
        assert!(secret(&[("AUTH_JWT_SECRET", &"r".repeat(32))]).is_ok());
    }

    #[test]
    fn an_empty_value_counts_as_unset() {
        assert_eq!(env(&[("REDIS_URL", "")]).get("REDIS_URL"), None);
    }

    #[test]
    fn a_misspelt_variable_is_refused_and_a_foreign_one_is_not() {
        for misspelt in ["KAFKA_BOOTSTAP", "KAFKA_BOOTSTRAPS", "KAFKA_BOOTSRTAP", "KAFKA_B00TSTRAP"] {
            let mut env = env(&[(misspelt, "x"), ("PATH", "/bin"), ("HOME", "/")]);
            env.get("KAFKA_BOOTSTRAP");
            let refused = env.refuse_misspelt().err().map(|e| e.variable);
            let one_letter = misspelt != "KAFKA_B00TSTRAP";
            assert_eq!(refused.is_some(), one_letter, "{misspelt}");
        }
    }
}
