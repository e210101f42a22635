//! The order service. It owns an order's fate, from submission to a final state.
//!
//! Reading order: [`domain`] (what may become of an order) · [`workflow`] (how it comes about) · [`downstream`] (whom
//! it asks) · [`store`] (what is durable) · [`http`] · [`events`] · [`jobs`] · [`app`] (how it is put together).

pub mod app;
pub mod config;
pub mod domain;
pub mod downstream;
pub mod error;
pub mod events;
pub mod http;
pub mod jobs;
pub mod meters;
pub mod store;
pub mod workflow;
