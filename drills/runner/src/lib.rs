//! Drills: a file says what must hold, something is broken for real, and a verdict says how the system bore it.
//!
//! A verdict is only worth something if it can be "I do not know": a drill whose steady state did not hold before, whose
//! fault was not felt, or whose load generator was the bottleneck is *inconclusive*, whatever its figures say.
//!
//! Reading order: [`scenario`] (what a file says, and what is wrong with it) → [`catalogue`] (which files there are) →
//! [`watched`] and [`log`] (what is observed) → [`probe`] (a figure from it, and whether it is within its bounds) →
//! [`verdict`] (all of them together), [`timelines`] (the same as curves) → [`report`] (both as a page), [`batch`]
//! (several drills); then the shell: [`guards`] (with them or without) → [`stack`] (the system under drill, by one of two
//! means) → [`scrape`] → [`faults`] (break and restore) → [`breaking`] (load and faults at the same time) → [`charges`]
//! (what the provider decided when) → [`course`] (a whole run), [`leftover`], for runs that were killed, and [`say`].
//! [`capacity`] is a run of another kind: how much the system carries.

pub mod batch;
pub mod breaking;
pub mod capacity;
pub mod catalogue;
pub mod charges;
pub mod course;
pub mod faults;
pub mod guards;
pub mod leftover;
pub mod log;
pub mod probe;
pub mod report;
pub mod say;
pub mod scenario;
pub mod scrape;
pub mod stack;
pub mod timelines;
pub mod verdict;
pub mod watched;
