//! How payment finds out what became of a charge, gives money back, and sends what was deferred.

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

use super::ms;
use crate::millis;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reconcile {
    /// How long a charge may be on its way after the request for it left: before that, "not found" proves nothing. The
    /// provider's promise, and what the clocks of replicas differ by.
    #[serde(rename = "settle_ms", with = "millis")]
    pub settle: Duration,
    /// The waits before the second question and those after it, one a retry tier. After the last one a person is told,
    /// and it goes on at that pace. Refunds without an answer are sent again at the same pace.
    #[serde(rename = "delays_ms", with = "millis::list")]
    pub delays: [Duration; 4],
    /// How long whoever dispatched an attempt may be at it before it counts as gone.
    #[serde(rename = "lease_ms", with = "millis")]
    pub lease: Duration,
    /// How long an attempt that certainly was not sent waits for order to defer it, before it is fenced.
    #[serde(rename = "withheld_ms", with = "millis")]
    pub withheld: Duration,
    /// A question that is overdue by so much was lost, and is asked anew.
    #[serde(rename = "lost_after_ms", with = "millis")]
    pub lost_after: Duration,
    /// How often the sweeper looks for attempts that stand still, refunds that are due and webhooks that wait.
    #[serde(rename = "sweep_interval_ms", with = "millis")]
    pub sweep_interval: Duration,
    /// Rows taken up in one round, at most.
    pub batch: NonZeroU32,
    /// How often each channel's ledger is compared with the attempts; at most every 10 s in development.
    #[serde(rename = "ledger_interval_ms", with = "millis")]
    pub ledger_interval: Duration,
    /// How often deferred charges are looked for.
    #[serde(rename = "drain_interval_ms", with = "millis")]
    pub drain_interval: Duration,
    /// Deferred charges under way at once.
    pub drain_concurrency: NonZeroU32,
}

impl Default for Reconcile {
    fn default() -> Self {
        Self {
            // The provider promises two seconds, and clocks that are kept differ by far less than one.
            settle: ms(3_000),
            // The first two outlast a lost reply, the third a restart of the provider, the last one a failover: nobody
            // waits at the checkout for that, and a provider in trouble is not asked for more.
            delays: [ms(1_000), ms(5_000), ms(30_000), ms(300_000)],
            // A charge takes 2 s at most, and the record of its outcome 5 s more.
            lease: ms(10_000),
            // Order decides at once; its message may have to wait for a broker that is being restarted.
            withheld: ms(60_000),
            // Longer than the broker takes over a rebalance; a second series of questions is only a waste.
            lost_after: ms(30_000),
            // Soon for a person, rare for the database.
            sweep_interval: ms(1_000),
            batch: NonZeroU32::MIN.saturating_add(99),
            // It finds what nothing else found, and reads everything.
            ledger_interval: ms(60_000),
            drain_interval: ms(500),
            // Beside the 60 that the bulkhead holds: a provider that has just come back is not buried.
            drain_concurrency: NonZeroU32::MIN.saturating_add(3),
        }
    }
}
