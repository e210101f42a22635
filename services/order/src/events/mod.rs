//! What order hears from others.

mod outcomes;

pub use outcomes::{GROUP, Outcomes};
