//! What order hears from others.

pub mod payments;
