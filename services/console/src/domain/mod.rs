//! Which version is in force where, as functions without I/O.

pub mod history;
pub mod in_force;
pub mod switch;

pub use history::{Act, Change, Refusal, Standing};
pub use in_force::{Held, InForce, Meant};
