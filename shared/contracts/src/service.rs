//! The services by name, and the ports that they listen on.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The API port of `order` replica 0; all other ports are offsets from it.
pub const DEFAULT_PORT_BASE: u16 = 8080;
/// Admin ports lie this far above the API ports.
pub const ADMIN_OFFSET: u16 = 1000;
/// Replica *k* of a service adds this much times *k* to both its ports.
pub const REPLICA_STEP: u16 = 100;
/// The most replicas of one service on one machine, bounded by the port scheme.
pub const MAX_REPLICAS: u16 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    Order,
    Inventory,
    Payment,
    Coupon,
    Recommendation,
    /// Where operators look and act. None of the others needs it.
    Console,
}

impl Service {
    /// Those that take part in an order, by which the system works with or without a console.
    pub const ALL: [Self; 5] = [Self::Order, Self::Inventory, Self::Payment, Self::Coupon, Self::Recommendation];
    pub const WITH_CONSOLE: [Self; 6] =
        [Self::Order, Self::Inventory, Self::Payment, Self::Coupon, Self::Recommendation, Self::Console];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Inventory => "inventory",
            Self::Payment => "payment",
            Self::Coupon => "coupon",
            Self::Recommendation => "recommendation",
            Self::Console => "console",
        }
    }

    /// Whether users call it. The others are called by services alone.
    #[must_use]
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Order)
    }

    /// Whether people open it in a browser.
    #[must_use]
    pub const fn is_for_browsers(self) -> bool {
        matches!(self, Self::Console)
    }

    /// The API port of replica `k` on a system with port base `base`.
    #[must_use]
    pub const fn api_port(self, base: u16, k: u16) -> u16 {
        base + self as u16 + REPLICA_STEP * k
    }

    /// The admin port of replica `k` on a system with port base `base`.
    #[must_use]
    pub const fn admin_port(self, base: u16, k: u16) -> u16 {
        self.api_port(base, k) + ADMIN_OFFSET
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no service: order, inventory, payment, coupon, recommendation or console")]
pub struct UnknownService(pub String);

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::WITH_CONSOLE.into_iter().find(|s| s.as_str() == text).ok_or_else(|| UnknownService(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_published_table() {
        assert_eq!(Service::Order.api_port(DEFAULT_PORT_BASE, 0), 8080);
        assert_eq!(Service::Recommendation.api_port(DEFAULT_PORT_BASE, 0), 8084);
        assert_eq!(Service::Recommendation.admin_port(DEFAULT_PORT_BASE, 0), 9084);
        assert_eq!(
            (Service::Console.api_port(DEFAULT_PORT_BASE, 0), Service::Console.admin_port(DEFAULT_PORT_BASE, 0)),
            (8085, 9085)
        );
        assert_eq!(Service::Order.api_port(DEFAULT_PORT_BASE, 2), 8280);
    }

    #[test]
    fn names_round_trip() {
        for service in Service::WITH_CONSOLE {
            assert_eq!(service.as_str().parse(), Ok(service));
        }
        assert_eq!("mail".parse::<Service>(), Err(UnknownService("mail".into())));
    }
}
