//! What an order is and what may become of it. No I/O: these are functions of (state, event, now).

mod decide;
mod event;
mod order;
mod outstanding;
mod refund;
#[cfg(test)]
mod sample;
mod transition;

pub use decide::decide;
pub use event::Event;
pub use order::{Coupon, Line, Order, Payment, Price};
pub use outstanding::{Acknowledged, outstanding};
pub use refund::{Refund, RefundPurpose, RefundReason, RefundState};
pub use transition::{Effect, KeyFate, Refusal, Transition};
