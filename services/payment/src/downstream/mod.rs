//! Whom this service calls.

pub mod provider;
