//! Owns what the payment provider was told, and what is known of its answers.
//!
//! Reading order: [`domain`] (the states of an attempt, and `decide`) · [`workflow`] (charge, fence, settle) ·
//! [`downstream`] (the provider, and what the end of a call proves) · [`store`] (SQL) · [`http`] · [`error`] ·
//! [`config`] · [`app`] (what is built from it).

pub mod app;
pub mod config;
pub mod domain;
pub mod downstream;
pub mod error;
pub mod http;
pub mod store;
pub mod workflow;
