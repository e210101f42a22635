//! SQL, each statement next to the function that it is for.

pub mod prune;
pub mod purchases;
pub mod rankings;
