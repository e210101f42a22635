//! What is on its way between processes.

use super::{Id, Purpose, Side};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Packet {
    // Calls of order. `caller` is the attempt of the run that waits.
    Reserve {
        id: Id,
        caller: u8,
    },
    Redeem {
        id: Id,
        caller: u8,
    },
    Pay {
        id: Id,
        caller: u8,
    },
    /// Without a caller: on behalf of a user who cancels, or of a payment that is pending for too long.
    Fence {
        id: Id,
        caller: Option<u8>,
    },
    ReleaseNow {
        id: Id,
        caller: u8,
    },
    // Answers of payment.
    PayAnswer {
        id: Id,
        caller: u8,
        answer: Answer,
    },
    FenceAnswer {
        id: Id,
        caller: Option<u8>,
        answer: Answer,
    },
    // Messages of order.
    Stock {
        id: Id,
        fate: Fate,
    },
    Coupon {
        id: Id,
        fate: Fate,
    },
    Compensate {
        id: Id,
    },
    Unknown {
        id: Id,
    },
    Deferred {
        id: Id,
    },
    Refund {
        id: Id,
        purpose: Purpose,
        minor: i64,
    },
    // Messages of payment and of coupon.
    Paid {
        id: Id,
        news: News,
    },
    CouponSettled {
        id: Id,
        honoured: bool,
    },
    // Between payment and the provider.
    Charge {
        id: Id,
        side: Side,
    },
    Webhook {
        id: Id,
        side: Side,
    },
}

/// What payment answers about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    Approved(Side),
    Declined(Side),
    NotDispatched,
    Unknown,
    Fenced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    Commit,
    Release,
}

/// What payment announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum News {
    Approved(Side),
    Declined(Side),
    Fenced,
    Review,
    Refunded(Purpose, i64),
}
