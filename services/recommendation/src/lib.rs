//! Recommendation knows which products are bought together and which are bought a lot, and always has an answer.
//!
//! Reading order: [`domain`] (what a purchase tells, how candidates are ranked, the last resort) · [`workflow`] (cache,
//! database, default list, in this order) · [`store`] (SQL) · [`http`] · [`events`] (confirmed orders) · [`jobs`] ·
//! [`app`], where all of it is put together.

pub mod app;
pub mod config;
pub mod domain;
pub mod error;
pub mod events;
pub mod http;
pub mod jobs;
pub mod meters;
pub mod store;
pub mod workflow;

pub use config::Config;
pub use error::Error;
