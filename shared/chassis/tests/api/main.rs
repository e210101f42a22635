//! A small service on the chassis, over real sockets: how it answers, and how it stops.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod answers;
mod downstream;
mod inbound;
mod outbound;
mod process;
mod ruling;
mod small;
mod stopping;
mod storm;
