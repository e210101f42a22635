//! What other services say that concerns recommendations.

mod orders;

pub use orders::{GROUP, Orders};
