//! For tests only: fresh databases and a way to them that breaks, services started in this process, a broker, a
//! downstream that misbehaves on request, a reader of metrics, a collector of traces, nonsense to send to a listener,
//! requests made up from an API document, and waiting on a condition instead of sleeping.

pub mod app;
pub mod database;
pub mod documented;
pub mod eventually;
pub mod failing_write;
pub mod kafka;
pub mod link;
pub mod malformed;
pub mod redis;
pub mod scrape;
pub mod spans;
pub mod stub;

pub use app::{TestApp, caller_token, operator_token, tenant_token, tier_token, user_token};
pub use database::TestDatabase;
pub use eventually::eventually;
pub use link::Link;
pub use redis::OwnRedis;
pub use scrape::Scrape;
pub use spans::SpanStub;
pub use stub::{Reply, Stub};
