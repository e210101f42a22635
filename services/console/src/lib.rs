//! The console is where operators look and act. No service needs it: each goes on with the rules that it has.
//!
//! It follows no version of the rules itself, so that none can shut out those who would have to take it back.
//!
//! Reading order: [`store`] (SQL) · [`http`] (who gets in, and the API) · [`app`], where all of it is put together.

pub mod app;
pub mod config;
pub mod error;
pub mod http;
pub mod meters;
pub mod store;

pub use config::Config;
pub use error::Error;
