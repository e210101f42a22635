//! What a limiter answers: admitted, not now, or never. Each answer carries what the `RateLimit` and
//! `RateLimit-Policy` headers need, so that the caller of a limiter computes nothing.

use std::{num::NonZeroU32, time::Duration};

use serde::Serialize;

/// The operation may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Admitted {
    /// `q` of `RateLimit-Policy`: the most that can be admitted at once.
    pub limit: u32,
    /// `w` of `RateLimit-Policy`: over how long `limit` is earned anew.
    #[serde(rename = "window_ms", with = "crate::millis")]
    pub window: Duration,
    /// `r` of `RateLimit`: what could still be admitted now.
    pub remaining: u32,
    /// `t` of `RateLimit`: when `remaining` is back at `limit`, if nobody else comes.
    #[serde(rename = "reset_ms", with = "crate::millis")]
    pub reset: Duration,
}

/// Not now. Who comes back after `retry_after` is admitted, if nobody else came in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("rate limit reached, {limit} in {window:?}: come back in {retry_after:?}")]
pub struct RateLimited {
    #[serde(rename = "retry_after_ms", with = "crate::millis")]
    pub retry_after: Duration,
    pub limit: u32,
    #[serde(rename = "window_ms", with = "crate::millis")]
    pub window: Duration,
    /// Above zero only where something heavier than one was refused.
    pub remaining: u32,
    /// The same instant as `retry_after`, since `Retry-After` must not point before `t`.
    #[serde(rename = "reset_ms", with = "crate::millis")]
    pub reset: Duration,
}

/// Never: the weight is above what the limiter could admit at its emptiest. Coming back is of no use, so this is no
/// 429 but a fault of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("a weight of {weight} can never be admitted by a limit of {limit}")]
pub struct Exceeds {
    pub weight: NonZeroU32,
    pub limit: u32,
}

/// Why a weighed operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Limited(#[from] RateLimited),
    #[error(transparent)]
    Exceeds(#[from] Exceeds),
}
