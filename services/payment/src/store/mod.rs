//! The service's own database. Every function works in its caller's transaction.

pub mod attempts;
