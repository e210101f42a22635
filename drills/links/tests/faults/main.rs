//! Every fault over real sockets, and what a link is while it has none.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

mod admin;
mod bottleneck;
mod http;
mod idle;
mod process;
mod setup;
mod tcp;
