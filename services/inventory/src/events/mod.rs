//! What other services say that concerns stock.

mod orders;

pub use orders::{GROUP, Orders};
