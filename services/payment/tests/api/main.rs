//! The payment service over HTTP, on a real PostgreSQL and a real broker, with a provider that misbehaves on request.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bank;
mod charge;
mod deadline;
mod events;
mod evidence;
mod fence;
mod operator;
mod outage;
mod refusals;
mod review;
mod scene;
mod settle;
mod settlement;
mod steps;
mod traces;
