//! What Redis makes faster and nothing depends on. This crate alone knows redis.
//!
//! Reading order: [`connection`] (a connection that waits for nobody) · [`single_flight`] · [`cache_aside`], with
//! `gate` (whether Redis is asked at all) and `counts` · [`quota`] (a limit that replicas share).

pub mod cache_aside;
pub mod connection;
mod counts;
mod gate;
mod meters;
pub mod quota;
pub mod single_flight;

pub use cache_aside::{Cache, CacheConfig, Cached, Freshness};
pub use connection::{BadRedisUrl, connect_lazily};
pub use counts::CacheSnapshot;
pub use meters::describe_metrics;
pub use quota::{
    Authority, BadQuota, Exceeds, Granted, Quota, QuotaConfig, QuotaSnapshot, RateLimited, Refused, Window,
};
pub use redis::aio::ConnectionManager;
