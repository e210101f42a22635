//! A small service on the chassis, over real sockets: how it answers, and how it stops.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod alerts;
mod answers;
mod composite;
mod criticality;
mod downstream;
mod following;
mod inbound;
mod metrics;
mod outbound;
mod process;
mod quotas;
mod relay;
mod ruling;
mod shop;
mod slow;
mod small;
mod stopping;
mod storm;
mod traces;
