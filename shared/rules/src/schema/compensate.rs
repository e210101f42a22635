//! How long coupon goes on trying to honour what was promised while it did not answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ms;
use crate::millis;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compensate {
    /// The waits before the second try and those after it, one a retry tier. After the last try a person decides.
    #[serde(rename = "delays_ms", with = "millis::list")]
    pub delays: [Duration; 4],
}

impl Default for Compensate {
    fn default() -> Self {
        // The first outlasts a lock, the second a restart, the third a failover; and within five minutes some share of an
        // exhausted coupon may have come back from an order that died. Nobody waits for the money by the second.
        Self { delays: [ms(1_000), ms(5_000), ms(30_000), ms(300_000)] }
    }
}
