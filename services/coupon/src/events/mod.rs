//! What other services say that concerns coupons.

mod orders;

pub use orders::{GROUP, Orders};
