//! One transaction for each decision: load with a lock, decide, save.

mod reserve;
mod restock;
mod settle;

pub use reserve::{Reserved, reserve};
pub use restock::restock;
pub use settle::{settle, settle_once};
