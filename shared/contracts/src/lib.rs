//! What the services say to each other: ids, money, bodies, events, topics, headers and problem types.
//!
//! No I/O and no framework: a client in another repository can depend on this crate alone.
//!
//! Reading order: [`ids`], [`money`], [`problem`], [`headers`], [`trace`], then a module a service
//! ([`order`], [`inventory`], [`payment`], [`coupon`], [`recommendation`]), [`ruling`] for versions of the rules,
//! [`provider`] for the outside world,
//! and [`event`] with [`topic`] for what travels through Kafka.

pub mod coupon;
pub mod event;
pub mod headers;
pub mod ids;
pub mod inventory;
pub mod money;
pub mod order;
pub mod payment;
pub mod problem;
pub mod provider;
pub mod recommendation;
pub mod ruling;
pub mod service;
pub mod topic;
pub mod trace;
pub mod validate;

pub use event::Event;
pub use ids::{AttemptId, EventId, OrderId, RefundId, UserId};
pub use money::{Currency, Money};
pub use problem::{FieldError, Problem, ProblemType};
pub use service::Service;
