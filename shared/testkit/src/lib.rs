//! For tests only.

pub mod kafka;
