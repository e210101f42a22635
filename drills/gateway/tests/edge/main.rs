//! The gateway: the containers' configuration, run by the real Envoy in front of stand-ins for order.
//!
//! Where Envoy cannot be had, only what can be read in the file is looked at, and the other tests say that they were
//! skipped.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod instances;
mod limits;
mod numbers;
mod passing;
mod refusals;
mod running;
