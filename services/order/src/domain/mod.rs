//! What an order is and what may become of it. No I/O: these are functions of (state, event, now).

mod decide;
mod order;

pub use decide::{Effect, Event, KeyFate, Refusal, Transition, decide};
pub use order::{Coupon, Line, Order, Payment, Price};
