//! What a quota answers: admitted, not now, or never; with what the `RateLimit` headers need. The same shape as that of
//! the limiters of one process, and whose word it was.

use std::{num::NonZeroU32, time::Duration};

use super::trust::Authority;

/// The operation may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    pub limit: u32,
    pub window: Duration,
    /// What could still be admitted, as far as this replica knows.
    pub remaining: u32,
    /// Until this window ends.
    pub reset: Duration,
    pub authority: Authority,
}

/// Not now, and nothing was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("quota used up, {limit} in {window:?}: come back in {retry_after:?}")]
pub struct RateLimited {
    pub retry_after: Duration,
    pub limit: u32,
    pub window: Duration,
    /// The same as `retry_after`, since `Retry-After` must not point before the header's `t`.
    pub reset: Duration,
    pub authority: Authority,
}

/// Never: the weight is above the limit. Coming back is of no use, so this is no 429 but a fault of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a weight of {weight} can never be admitted by a limit of {limit}")]
pub struct Exceeds {
    pub weight: NonZeroU32,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Limited(#[from] RateLimited),
    #[error(transparent)]
    Exceeds(#[from] Exceeds),
}
