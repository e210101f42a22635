//! Coupon owns coupons and their redemptions, and alone decides whether an order gets a discount.
//!
//! Reading order: [`domain`] (what a coupon is worth, and what a redemption may become) · [`workflow`] (one
//! transaction for each decision) · [`store`] (its SQL) · [`http`] · [`events`] (orders that were confirmed or died,
//! and discounts still to be honoured) · [`jobs`] · [`app`], where all of it is put together.

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
