//! Where a process of this service may be made to die: before and after each step that another one has to resume. A
//! test walks through all of them, and through the journeys of an order that pass them.

/// By name, for `CRASH_AT`.
pub const CRASH_POINTS: &[&str] = &[
    // Placing. Answered: a sibling has acted, and nothing here says so yet.
    "order.key_claimed",
    "order.created",
    "order.stock_answered",
    "order.stock_recorded",
    "order.coupon_answered",
    "order.coupon_recorded",
    "order.charge_intended",
    "order.charge_answered",
    "order.outcome_recorded",
    "order.fence_answered",
    "order.fence_recorded",
    "order.stock_released",
    // Any transition: all is written and nothing committed.
    "order.transition_written",
    // Cancelling.
    "order.cancel_recorded",
    // Hearing of a payment, a refund or a coupon.
    "order.message_received",
    "order.message_applied",
    "order.message_committed",
    // Recovering.
    "order.taken_over",
    "order.overdue_claimed",
    "order.walk_begun",
    "order.walk_looked",
    "order.walk_written",
];
