//! What follows from what is known, as functions without I/O: which version of the rules is in force where, what all
//! instances say together, and who gets in.

pub mod exposition;
pub mod faults;
pub mod history;
pub mod in_force;
pub mod live;
pub mod operators;
pub mod session;
pub mod switch;
pub mod target;

pub use history::{Act, Change, Refusal, Standing};
pub use in_force::{Held, InForce, Meant};
