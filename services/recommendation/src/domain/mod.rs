//! Decisions without I/O.

mod purchase;
mod ranking;

pub use purchase::{NotAPurchase, Product, Purchase};
pub use ranking::{blend, pick};
