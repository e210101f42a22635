//! Who is at work: all of it is gone when the process dies.

use super::{Id, Side};

/// A run of order's loop over one order, under one attempt of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    pub id: Id,
    pub attempt: u8,
    pub step: RunStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunStep {
    /// Has the key, and has not made the order yet.
    Claimed,
    AwaitsStock,
    AwaitsCoupon,
    /// Everything is held, and the charge is not intended yet.
    Ready,
    /// The intent is saved, and the request has not left.
    Intended,
    AwaitsPayment,
    AwaitsFence,
    /// Gives the stock back before it tells the client to come again.
    AwaitsRelease,
}

/// A call of payment to one channel of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    pub id: Id,
    pub side: Side,
    pub dispatch_no: i32,
    /// Which run of order waits for what comes of it; none waits for a deferred charge.
    pub caller: Option<u8>,
    pub step: CallStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallStep {
    /// The intent is saved, and the request has not left.
    Intended,
    AwaitsProvider,
}
