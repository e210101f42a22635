//! The provider over HTTP, in this process or as the real binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod behaviour;
mod charges;
mod process;
mod refunds;
mod refusals;
mod setup;
mod webhooks;
