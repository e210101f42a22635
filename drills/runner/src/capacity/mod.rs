//! How much the system carries: the load goes up in steps until it breaks, and thresholds follow from where it turned.
//!
//! What others agreed on long ago is measured here: the *knee*, behind which more load buys waiting and hardly anything
//! sold, and the *cliff*, behind which less is sold than before (Jain and Ramakrishnan, "Congestion avoidance in computer
//! networks", 1988). Here they are called inflection and breakage, and [`reading`] says exactly what they are.
//!
//! Like a verdict, a capacity is only worth something if it can be "I do not know": where the load generator was the
//! bottleneck, where a limit at the door was what refused, or where the steps did not go far enough.
//!
//! Reading order: [`ladder`] (which steps) → [`system`] (of what) → [`step`] (what one came to) → [`reading`] (where it
//! turned and where it broke) → [`thresholds`] (what follows) → [`draft`] (as rules) → [`record`] (all of it, and the
//! verdict) → [`page`] (as a page); then the shell: [`climb`] (one way up) → [`course`] (a whole run) → [`command`].

pub mod climb;
pub mod command;
pub mod course;
pub mod draft;
pub mod ladder;
pub mod page;
pub mod reading;
pub mod record;
pub mod step;
pub mod system;
pub mod thresholds;

#[cfg(test)]
mod sample;
