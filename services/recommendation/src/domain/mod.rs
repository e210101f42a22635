//! Decisions without I/O.

mod default_list;
mod purchase;
mod ranking;

pub use default_list::default_list;
pub use purchase::{NotAPurchase, Product, Purchase};
pub use ranking::{blend, pick};
