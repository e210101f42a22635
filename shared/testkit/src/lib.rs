//! For tests only: fresh databases and a way to them that breaks, services started in this process, a broker, a
//! downstream that misbehaves on request, nonsense to send to a listener, and waiting on a condition instead of sleeping.

pub mod app;
pub mod database;
pub mod eventually;
pub mod failing_write;
pub mod kafka;
pub mod link;
pub mod malformed;
pub mod redis;
pub mod stub;

pub use app::{TestApp, caller_token, tenant_token, tier_token, user_token};
pub use database::TestDatabase;
pub use eventually::eventually;
pub use link::Link;
pub use redis::OwnRedis;
pub use stub::{Reply, Stub};
