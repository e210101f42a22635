//! The worlds, small ones first.

use crate::{
    setting::{CALM, Setting},
    world::Budget,
};

const NONE: Budget = CALM.budget;

/// One order, and one of everything that can break.
pub const ALONE: Setting = Setting {
    name: "one order; a crash, a loss, a refusal",
    webhooks: true,
    budget: Budget { crashes: 1, losses: 1, refusals: 1, ..NONE },
    ..CALM
};

/// A charge that arrives when nobody expects it any more.
pub const LATE: Setting = Setting { name: "a late charge; declines", declines: true, ..CALM };

/// The same, and the message of it may be lost.
pub const CONTRADICTED: Setting =
    Setting { name: "a late charge; declines, a loss", budget: Budget { losses: 1, ..NONE }, ..LATE };

/// Reconciliation fences what is only about to be sent.
pub const PAUSED: Setting = Setting {
    name: "a call that stands still between its intent and its request",
    timeouts: false,
    budget: Budget { pauses: 1, ..NONE },
    ..CALM
};

/// A charge that waits, and its end by a fence.
pub const DEFERRED: Setting = Setting {
    name: "a deferred charge; a cancel, a loss, two refusals",
    deferral: true,
    budget: Budget { losses: 1, refusals: 2, cancels: 1, ..NONE },
    ..CALM
};

/// A release that overtakes its commit, a refund, a fence on what is under way.
pub const CANCELLED: Setting = Setting {
    name: "a cancel at any moment; webhooks, a duplicate",
    webhooks: true,
    budget: Budget { duplicates: 1, cancels: 1, ..NONE },
    ..CALM
};

/// One key with two units: one unit would hide a second order behind "out of stock".
pub const TWICE: Setting =
    Setting { name: "one key, two overlapping requests, two units", requests: 2, overlap: true, ..CALM };

/// A run dies, or comes back after its order was taken over.
pub const OVERLAP: Setting = Setting {
    name: "one key, two overlapping requests, two units; a pause, a crash",
    budget: Budget { pauses: 1, crashes: 1, ..NONE },
    ..TWICE
};

/// A charge that payment refuses, and a second copy of the request for it.
pub const REFUSED: Setting = Setting {
    name: "one key, two overlapping requests, two units; a duplicate, a refusal",
    budget: Budget { duplicates: 1, refusals: 1, ..NONE },
    ..TWICE
};

/// Each channel charges a key once, so that two channels could charge it twice.
pub const TWO_CHANNELS: Setting = Setting {
    name: "a backup; a crash, a duplicate, two refusals",
    backup: true,
    budget: Budget { crashes: 1, duplicates: 1, refusals: 2, ..NONE },
    ..CALM
};

/// What the product takes for impossible, to see that it would be repaired.
pub const LYING: Setting = Setting {
    name: "a backup, and a connect error of a request that was sent; webhooks, a loss",
    backup: true,
    webhooks: true,
    connect_lies: true,
    budget: Budget { losses: 1, refusals: 1, ..NONE },
    ..CALM
};

/// The coupon service does not answer, or too late.
pub const COUPON: Setting =
    Setting { name: "a coupon; a cancel", coupons: Some(1), budget: Budget { cancels: 1, ..NONE }, ..CALM };

/// Nothing is lost and nobody gives up: what a client may rely on where all goes as it should.
pub const RETRY: Setting = Setting {
    name: "one unit, and a client that is told to come again",
    requests: 2,
    stock: 1,
    timeouts: false,
    budget: Budget { refusals: 1, ..NONE },
    ..CALM
};

/// Two keys with one unit: who comes second is told so, and a late copy of its request holds nothing.
pub const UNIT: Setting = Setting {
    name: "two keys, one unit; a duplicate; declines",
    keys: 2,
    stock: 1,
    declines: true,
    timeouts: false,
    budget: Budget { duplicates: 1, ..NONE },
    ..CALM
};

/// For `./dev test --full`.
pub const LARGE: [Setting; 6] = [
    Setting {
        name: "one order; two crashes, a loss, a duplicate, a refusal, a cancel; webhooks",
        webhooks: true,
        budget: Budget { crashes: 2, losses: 1, duplicates: 1, refusals: 1, cancels: 1, ..NONE },
        ..CALM
    },
    Setting {
        name: "one key, two overlapping requests, two units; a crash, a pause, a refusal",
        budget: Budget { crashes: 1, pauses: 1, refusals: 1, ..NONE },
        ..TWICE
    },
    Setting {
        name: "one key, two overlapping requests, two units; a pause, a duplicate, a refusal",
        budget: Budget { pauses: 1, duplicates: 1, refusals: 1, ..NONE },
        ..TWICE
    },
    Setting { name: "two keys, one unit; a duplicate", declines: false, timeouts: true, ..UNIT },
    Setting {
        name: "a backup and deferral; a crash, a loss, a duplicate, two refusals, a cancel; webhooks",
        backup: true,
        deferral: true,
        webhooks: true,
        budget: Budget { crashes: 1, losses: 1, duplicates: 1, refusals: 2, cancels: 1, ..NONE },
        ..CALM
    },
    Setting {
        name: "a coupon; a crash, a loss, a cancel; declines",
        declines: true,
        budget: Budget { crashes: 1, losses: 1, cancels: 1, ..NONE },
        ..COUPON
    },
];
