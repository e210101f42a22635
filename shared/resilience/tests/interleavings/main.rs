//! Every pattern that shares state between threads, explored over many schedules.
//!
//! The sources are compiled here a second time: `super::sync` in them is then the model checker's primitives, so that
//! what is explored is the code that ships and not a copy. (failsafe's own lock and arc-swap are outside of it: the
//! first is only ever taken under the breaker's, the second has no steps in between.)

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

#[path = "../../src/breaker/mod.rs"]
#[expect(dead_code, unused_imports, reason = "these tests use a part of the public face")]
mod breaker;
#[path = "../../src/bulkhead.rs"]
#[expect(dead_code, reason = "these tests use a part of the public face")]
mod bulkhead;
#[path = "../../src/millis.rs"]
mod millis;
mod sync;

mod breakers;
mod bulkheads;

use resilience::{deadline, invalid, ramp};
