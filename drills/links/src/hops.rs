//! The hops of the system in the order of their ports. The local stack wires them, drills name them.

use contracts::service::DEFAULT_PORT_BASE;

use crate::fault::Protocol;

/// One hop: `name` is what drills call it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub name: &'static str,
    pub protocol: Protocol,
}

const ADMIN_OFFSET: u16 = 8474 - DEFAULT_PORT_BASE;
const FIRST_OFFSET: u16 = 8500 - DEFAULT_PORT_BASE;

/// A hop into a store is shared by all who use the store, so that it has no caller in its name.
pub const ALL: [Hop; 9] = [
    Hop { name: "order->inventory", protocol: Protocol::Http },
    Hop { name: "order->payment", protocol: Protocol::Http },
    Hop { name: "order->coupon", protocol: Protocol::Http },
    Hop { name: "order->recommendation", protocol: Protocol::Http },
    Hop { name: "payment->provider", protocol: Protocol::Http },
    Hop { name: "payment->provider-backup", protocol: Protocol::Http },
    Hop { name: "->postgres", protocol: Protocol::Tcp },
    Hop { name: "->redis", protocol: Protocol::Tcp },
    Hop { name: "->kafka", protocol: Protocol::Tcp },
];

/// Where the admin API of a system with this port base listens.
#[must_use]
pub const fn admin_port(base: u16) -> u16 {
    base + ADMIN_OFFSET
}

/// Where a hop's link listens, if there is such a hop.
#[must_use]
pub fn port(base: u16, name: &str) -> Option<u16> {
    let n = ALL.iter().position(|hop| hop.name == name)?;
    Some(base + FIRST_OFFSET + u16::try_from(n).ok()?)
}

#[must_use]
pub fn find(name: &str) -> Option<Hop> {
    ALL.into_iter().find(|hop| hop.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_published_order() {
        assert_eq!(admin_port(DEFAULT_PORT_BASE), 8474);
        assert_eq!(port(DEFAULT_PORT_BASE, "order->inventory"), Some(8500));
        assert_eq!(port(DEFAULT_PORT_BASE, "payment->provider-backup"), Some(8505));
        assert_eq!(port(9080, "->kafka"), Some(9508));
        assert_eq!(port(DEFAULT_PORT_BASE, "order->nowhere"), None);
    }
}
