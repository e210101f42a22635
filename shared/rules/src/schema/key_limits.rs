//! Limits for each user, tenant, caller and sender of webhooks: nobody uses up what belongs to all.

use std::collections::BTreeMap;

use resilience::rate_limit::{PerKeyConfig, Quota, TierConfig};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyLimits {
    /// A user's requests, but for those of `poll`.
    pub user: PerKeyConfig<Uuid>,
    /// A user's questions after an order.
    pub poll: PerKeyConfig<Uuid>,
    /// All users of a tenant together.
    pub tenant: PerKeyConfig<String>,
    /// Another service, by the name of its token.
    pub caller: PerKeyConfig<String>,
    /// Whoever sends webhooks, by name.
    pub webhook: PerKeyConfig<String>,
}

/// Which of a user's limits a route counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyLimit {
    User,
    Poll,
}

fn limits<K>(default: Quota, vip: Option<Quota>, max_keys: usize, overflow: Quota) -> PerKeyConfig<K> {
    // Shares the store of the others: a user whose tier changes keeps what was spent.
    let tier = |quota: Quota| TierConfig { per_second: quota.per_second, burst: quota.burst, max_keys: None };
    PerKeyConfig {
        default,
        tiers: vip.map(|quota| ("vip".to_owned(), tier(quota))).into_iter().collect(),
        overrides: BTreeMap::new(),
        max_keys,
        overflow,
    }
}

impl Default for KeyLimits {
    fn default() -> Self {
        // What is left for all keys together that found no room: a third of what an instance lets in.
        let overflow = Quota::new(100.0, 100);
        // 100 000 keys of some 50 bytes are 5 MB, and more than are active within one minute.
        let users = 100_000;
        Self {
            // No person is faster than ten requests a second; a page asks for a few at once. A VIP is often a program.
            user: limits(Quota::new(10.0, 20), Some(Quota::new(100.0, 200)), users, overflow),
            // Twice a second is as often as an answer can be news, and a few orders may be open at once.
            poll: limits(Quota::new(5.0, 10), Some(Quota::new(50.0, 100)), users, overflow),
            // A tenant is a shop: half of what one instance lets in, so that a second one always finds room.
            tenant: limits(Quota::new(150.0, 300), Some(Quota::new(300.0, 450)), 1_000, overflow),
            // The services call once or twice an order, with retries; the routes' own limits are the same.
            caller: limits(Quota::new(1_000.0, 1_500), None, 100, overflow),
            // One a charge and one a refund, and a provider that catches up after an outage. Refused ones come again.
            webhook: limits(Quota::new(200.0, 400), None, 100, overflow),
        }
    }
}
