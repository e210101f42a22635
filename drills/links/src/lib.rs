//! A fault proxy: one listener in front of every hop, which carries the hop's traffic unchanged until it is told to
//! break it.
//!
//! | fault | on an HTTP hop, a request at a time | on a TCP hop, a connection at a time |
//! |---|---|---|
//! | `latency` | the answer (or the request, `on`) waits `latency_ms` ± `jitter_ms` | what is read waits |
//! | `refuse` | no connection is taken; idle ones are closed, requests in hand finish | all connections are closed |
//! | `reset` | RST instead of forwarding | RST at the next bytes |
//! | `hang` | not forwarded while it lasts | nothing flows while it lasts |
//! | `http_status` | answered with `status`, not forwarded | – |
//! | `lose_reply` | forwarded, the answer dropped: the caller hears nothing | what comes back is dropped |
//! | `duplicate` | sent twice, the copy `delay_ms` later on a connection of its own, its answer dropped | – |
//! | `bandwidth` | bodies pass at `bytes_per_second` | each direction passes at that |
//! | `bottleneck` | `at_once` of them pass at a time and take `latency_ms` each, in the order of their coming; who leaves keeps its place | – |
//!
//! Four promises, each kept by a test:
//!
//! - **A fault that was not felt is not counted.** A fault's `applied` rises when a request or a connection has really
//!   met it. A link has no state "disabled" in which its faults could lie about: what carries no traffic counts none.
//!   One exception is said where it matters: a connection that the kernel refuses is never seen here, so `refuse`
//!   counts the connections that it closed, and its proof is in the caller's metrics.
//! - **Off means off at once**, for the requests in it too: whoever waits in a fault goes on in the moment in which it
//!   is removed, and nothing that a request waits for is done under a lock.
//! - **The same seed brings the same luck**: the nth throw of a fault belongs to the nth request that it meets.
//! - **Idle, it is one hop and nothing else.** Every connection of a caller has one of its own to the upstream, opened
//!   and closed with it; no header is added; nothing is sent again. A dead upstream is mirrored: as long as it refuses
//!   connections, or its name leads nowhere, the link refuses them too, since "refused" and "no answer" are different
//!   truths to a caller.
//!
//! Reading order: [`hops`] (which hops there are) → [`fault`] (what can be asked for) → `active` (a fault in force) →
//! `link` (a hop and its faults) → `gate` (takes or refuses connections) → `hop` (carries them) → `admin`, and
//! [`server`], which puts them together.

mod active;
mod admin;
pub mod fault;
mod gate;
mod hop;
pub mod hops;
mod link;
pub mod server;
mod switchboard;

pub use fault::{Effect, Fault, FaultRequest, Protocol, Side};
pub use server::{LinkConfig, LinksConfig, RunningLinks, StartError, start};
