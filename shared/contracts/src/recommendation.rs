//! The internal recommendation API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where an answer comes from, from best to last resort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Live,
    Cache,
    Default,
}

/// `GET /v1/recommendations`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recommendations {
    pub source: Source,
    pub items: Vec<Recommended>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recommended {
    pub sku: String,
    pub name: String,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
}
