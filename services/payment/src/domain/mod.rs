//! Decisions, without I/O.

pub mod attempt;
