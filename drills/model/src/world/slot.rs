//! What the databases hold about one order.

use contracts::payment::Channel;

use crate::{attempts::AttemptRow, orders::OrderRow};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    pub key: u8,
    pub order: Option<OrderRow>,
    /// Its user was told that the wish to cancel is taken.
    pub taken_back: bool,
    /// Inventory's reservation.
    pub stock: Holding,
    /// Coupon's redemption.
    pub coupon: Holding,
    pub compensation: Compensation,
    pub attempt: Option<AttemptRow>,
    /// A charge proved wrong what was announced of the attempt, and order has not asked for the money.
    pub contradicted: bool,
    /// What each channel's provider has in its ledger.
    pub charges: [Charge; 2],
    /// Payment's refunds, by what they are for.
    pub refunds: [Refund; PURPOSES],
    /// Payment's refunds of charges that settle nothing, by channel.
    pub extra: [Refund; 2],
}

/// The same states in inventory and in coupon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holding {
    None,
    Held,
    Committed,
    Released,
    Returned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compensation {
    None,
    Honoured,
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Charge {
    None,
    Declined,
    Approved { minor: i64, refunded: i64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refund {
    None,
    Requested(i64),
    Made(i64),
}

pub const PURPOSES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Everything that is left of the charge.
    Full,
    /// A discount that was promised.
    Coupon,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    Primary,
    Backup,
}

impl Side {
    pub const ALL: [Self; 2] = [Self::Primary, Self::Backup];

    #[must_use]
    pub const fn channel(self) -> Channel {
        match self {
            Self::Primary => Channel::Primary,
            Self::Backup => Channel::Backup,
        }
    }
}

impl From<Channel> for Side {
    fn from(channel: Channel) -> Self {
        match channel {
            Channel::Primary => Self::Primary,
            Channel::Backup => Self::Backup,
        }
    }
}
