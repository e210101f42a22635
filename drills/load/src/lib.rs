//! An open-loop load generator: users do not wait for each other, so neither does this.
//!
//! A closed loop (N clients, each waiting for its answer) slows down together with the system that it measures: it
//! stops asking exactly while answers are worst, and reports a calm that no user has seen ("coordinated omission").
//! Here arrivals are fixed before the first byte is sent, nothing delays them, and latency counts from the moment at
//! which a request *should* have left. What the generator itself could not do is counted apart, and is never blamed on
//! the system.
//!
//! Reading order: [`profile`] (how many a second, when) → [`arrivals`] (at which instants) → [`mix`] (of what) →
//! [`crowd`] (by what kind of people) → [`plan`] (all of it, from one seed) → [`users`], [`choice`], [`shop`] (what a
//! request says) → [`request`] (a request and its answer) → [`generator`] (sends them) → [`recording`] (what happened) →
//! [`report`] (in figures). [`target`] and [`http`] are the way out of the process.

pub mod arrivals;
pub mod choice;
pub mod crowd;
pub mod generator;
pub mod http;
pub mod mix;
pub mod plan;
pub mod profile;
pub mod recording;
pub mod report;
pub mod request;
pub mod shop;
pub mod target;
pub mod users;

pub use arrivals::Process;
pub use choice::Choice;
pub use crowd::{Crowd, Retry};
pub use generator::{Limits, run};
pub use http::Http;
pub use mix::{Kind, Mix};
pub use plan::{Call, Plan};
pub use profile::{Profile, Spike, Stage};
pub use recording::Recording;
pub use report::Report;
pub use request::{Answer, Failure, Outcome, Reply, Request};
pub use shop::Shop;
pub use target::Target;
pub use users::Users;
