//! Owns what the payment provider was told, and what is known of its answers.
//!
//! Reading order: [`domain`] (the states of an attempt and of a refund, and `decide`) · [`workflow`] (charge, fence,
//! reconcile, refund) · [`downstream`] (the provider, and what the end of a call proves) · [`store`] (SQL) · [`http`] ·
//! [`events`] and [`jobs`] (what re-enters the workflow by itself) · [`error`] · [`config`] · [`app`] (what is built
//! from it).

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
