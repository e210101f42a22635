//! Inventory owns stock and reservations, and alone decides what is left of a product.
//!
//! Reading order: [`domain`] (what a reservation may become, and what that does to stock) · [`workflow`] (one
//! transaction for each decision) · [`store`] (its SQL) · [`http`] · [`events`] (orders that were confirmed or died)
//! · [`jobs`] · [`app`], where all of it is put together.

pub mod app;
pub mod config;
pub mod domain;
pub mod error;
pub mod events;
pub mod http;
pub mod jobs;
pub mod meters;
pub mod seed;
pub mod store;
pub mod workflow;

pub use config::Config;
pub use error::Error;
