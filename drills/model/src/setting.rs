//! What a world starts with, and how much may go wrong in it.

use crate::world::Budget;

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub name: &'static str,
    /// Clients, each with an idempotency key of its own.
    pub keys: u8,
    /// Requests of each client, all with its one key.
    pub requests: u8,
    /// A client sends again while its first request is still worked on.
    pub overlap: bool,
    /// Units of the one product; each order takes one.
    pub stock: u8,
    /// Orders come with a coupon, of which there are so many.
    pub coupons: Option<u8>,
    pub backup: bool,
    /// Charges that could not be sent may wait.
    pub deferral: bool,
    /// The provider may say no.
    pub declines: bool,
    pub webhooks: bool,
    /// Who waits may give up at any moment, whatever became of the request.
    pub timeouts: bool,
    /// A connect error may come of a request that was sent after all. Nothing but the refund of extra charges repairs
    /// that; the product takes it for impossible.
    pub connect_lies: bool,
    pub budget: Budget,
}

/// One client, one order, nothing goes wrong: what a world adds is seen by what it changes.
pub const CALM: Setting = Setting {
    name: "calm",
    keys: 1,
    requests: 1,
    overlap: false,
    stock: 2,
    coupons: None,
    backup: false,
    deferral: false,
    declines: false,
    webhooks: false,
    timeouts: true,
    connect_lies: false,
    budget: Budget { crashes: 0, losses: 0, duplicates: 0, pauses: 0, refusals: 0, cancels: 0 },
};
