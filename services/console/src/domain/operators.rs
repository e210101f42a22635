//! Who may get in, and by which password.

use std::fmt;

use chassis::{ConfigError, dev_secrets, env::bad};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const VARIABLE: &str = "CONSOLE_OPERATORS";
const LONGEST_NAME: usize = 64;
/// A person types it; how fast guesses come is limited elsewhere.
const SHORTEST_PASSWORD: usize = 12;

/// The operators. Their passwords are kept as hashes alone, which makes them equally long too.
#[derive(Clone)]
pub struct Operators(Vec<Operator>);

#[derive(Clone)]
struct Operator {
    name: String,
    password: [u8; 32],
}

impl Operators {
    /// From `name:password,…`; outside dev no password may be short or well known.
    pub fn parse(list: &str, dev: bool) -> Result<Self, ConfigError> {
        let mut operators: Vec<Operator> = Vec::new();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let named = entry.split_once(':').filter(|(name, password)| {
                (1..=LONGEST_NAME).contains(&name.chars().count())
                    && !password.is_empty()
                    && !name.contains(char::is_control)
            });
            // The entry holds a secret; it is not repeated.
            let (name, password) =
                named.ok_or_else(|| bad(VARIABLE, "is not of the form name:password,name:password"))?;
            if !dev && dev_secrets::is_well_known(password) {
                return Err(bad(VARIABLE, "has a well-known development password, which only APP_ENV=dev may use"));
            }
            if !dev && password.len() < SHORTEST_PASSWORD {
                return Err(bad(VARIABLE, format!("has a password of fewer than {SHORTEST_PASSWORD} bytes")));
            }
            if operators.iter().any(|known| known.name == name) {
                return Err(bad(VARIABLE, format!("names {name} twice")));
            }
            operators.push(Operator { name: name.to_owned(), password: hash(password) });
        }
        if operators.is_empty() {
            return Err(bad(VARIABLE, "names nobody"));
        }
        Ok(Self(operators))
    }

    /// The operator of this name, if this is the password. All are compared, each in constant time.
    #[must_use]
    pub fn find(&self, name: &str, password: &str) -> Option<&str> {
        let (asked, shown) = (hash(name), hash(password));
        let mut found = None;
        for operator in &self.0 {
            if bool::from(hash(&operator.name).ct_eq(&asked) & operator.password.ct_eq(&shown)) {
                found = Some(operator.name.as_str());
            }
        }
        found
    }
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|operator| &operator.name)).finish()
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_known_by_name_and_password_together() {
        let operators = Operators::parse("ada:the first password, bob:another:one", true).unwrap();
        assert_eq!(operators.find("ada", "the first password"), Some("ada"));
        assert_eq!(operators.find("bob", "another:one"), Some("bob"));
        for (name, password) in [("ada", "another:one"), ("bob", ""), ("", ""), ("eve", "the first password")] {
            assert_eq!(operators.find(name, password), None, "{name}");
        }
    }

    #[test]
    fn outside_dev_no_password_is_short_or_known_to_all() {
        assert!(Operators::parse("ada:short", true).is_ok());
        for list in ["ada:short".to_owned(), format!("operator:{}", dev_secrets::OPERATOR_PASSWORD)] {
            assert_eq!(Operators::parse(&list, false).unwrap_err().variable, VARIABLE);
        }
        assert!(Operators::parse("ada:long enough a password", false).is_ok());
    }

    #[test]
    fn a_malformed_list_is_refused_without_repeating_a_secret() {
        for list in ["", ",", "hunter2hunter2", ":hunter2hunter2", "ada:", "ada:hunter2hunter2,ada:other"] {
            let error = Operators::parse(list, true).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let shown = format!("{:?}", Operators::parse("ada:hunter2hunter2", true).unwrap());
        assert_eq!(shown, "[\"ada\"]");
    }
}
