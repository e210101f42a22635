//! Where the load goes: to this machine alone.
//!
//! A load generator pointed at somebody else's address is an attack, whatever was meant. So this is decided where the
//! address is read, and a name is not looked up: `localhost` means 127.0.0.1 here.

use std::{net::Ipv4Addr, str::FromStr};

use reqwest::Url;

/// The base address of a service on this machine, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(String);

/// The address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    #[error("the address is no URL like http://127.0.0.1:8080")]
    NotAnAddress,
    #[error("{0} is not on this machine: this is a drill tool, and it only calls 127.0.0.0/8 and localhost")]
    NotLocal(String),
}

impl Target {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let url: Url = text.parse().map_err(|_| BadTarget::NotAnAddress)?;
        let host = url.host_str().ok_or(BadTarget::NotAnAddress)?;
        // The parser has brought every spelling of an IPv4 address into the dotted form by now.
        let address = match host {
            "localhost" => Ipv4Addr::LOCALHOST,
            _ => match host.parse::<Ipv4Addr>() {
                Ok(address) if address.is_loopback() => address,
                _ => return Err(BadTarget::NotLocal(host.to_owned())),
            },
        };
        let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let anonymous = url.username().is_empty() && url.password().is_none();
        if url.scheme() != "http" || !bare || !anonymous {
            return Err(BadTarget::NotAnAddress);
        }
        Ok(Self(format!("http://{address}:{}", url.port_or_known_default().ok_or(BadTarget::NotAnAddress)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_taken() {
        for (text, base) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.8.9.10:81/", "http://127.8.9.10:81"),
            ("http://localhost:8080/", "http://127.0.0.1:8080"),
            ("http://LOCALHOST", "http://127.0.0.1:80"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().as_str(), base);
        }
    }

    #[test]
    fn every_other_machine_is_refused_however_it_is_spelt() {
        for text in [
            "http://example.org",
            "http://10.0.0.1:8080",
            "http://0.0.0.0:8080",
            "http://128.0.0.1",
            "http://2130706434.example",
            "http://0x0a000001:8080",
            "http://127.0.0.1@example.org/",
            "http://localhost.example.org",
            "http://localhost.:8080",
            "http://[::1]:8080",
            "http://[::ffff:10.0.0.1]",
        ] {
            assert!(matches!(text.parse::<Target>(), Err(BadTarget::NotLocal(_))), "{text}");
        }
    }

    #[test]
    fn what_is_no_base_address_is_refused() {
        for text in [
            "",
            "127.0.0.1:8080",
            "/v1",
            "https://127.0.0.1",
            "ftp://127.0.0.1",
            "http://127.0.0.1/v1",
            "http://127.0.0.1/?a=b",
            "http://a:b@127.0.0.1/",
            "file:///etc/passwd",
        ] {
            assert_eq!(text.parse::<Target>(), Err(BadTarget::NotAnAddress), "{text}");
        }
    }
}
