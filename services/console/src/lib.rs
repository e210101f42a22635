//! The console is where operators look and act. No service needs it: each goes on with the rules that it has.
//!
//! It follows no version of the rules itself, so that none can shut out those who would have to take it back.
//!
//! Reading order: [`domain`] (the life of a version, who is meant by it, a switch; what all instances say together; who gets
//! in) · [`workflow`] (what operators do, what is in force, the live view and who watches it) · [`store`] (SQL) ·
//! [`downstream`] (whom it asks) · [`jobs`] · [`http`] (who gets in, and the API) · [`app`], where all of it is put together.

pub mod app;
pub mod config;
pub mod domain;
pub mod downstream;
pub mod error;
pub mod http;
pub mod jobs;
pub mod meters;
pub mod store;
pub mod workflow;

pub use config::Config;
pub use error::Error;
