//! The order service over real HTTP, PostgreSQL and Kafka; its siblings are stubs that misbehave on request.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod cancel;
mod deferral;
mod degradation;
mod events;
mod idempotency;
mod malformed;
mod operator;
mod place_order;
mod process;
mod products;
mod queries;
mod recover;
mod refunds;
mod steps;
mod stubs;
mod walks;
mod world;
