//! A quota for each user, tenant, calling service and sender of webhooks: nobody uses up what belongs to all.
//!
//! A user's requests count against the user, by tier, and then against the tenant. One of our own services has a quota
//! by its name and none by the user it works for: that user was judged at the edge.

use resilience::rate_limit::{Invalid, PerKey, Tier};
use rules::KeyLimit;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Asking, rate_limit_headers::Governed, refusal::Refusal};

pub(super) const USER: &str = "rate_limit.user";
pub(super) const POLL: &str = "rate_limit.poll";
pub(super) const TENANT: &str = "rate_limit.tenant";
pub(super) const CALLER: &str = "rate_limit.caller";
pub(super) const WEBHOOK: &str = "rate_limit.webhook";

pub(super) struct KeyLimits {
    user: PerKey<Uuid>,
    poll: PerKey<Uuid>,
    tenant: PerKey<String>,
    caller: PerKey<String>,
    webhook: PerKey<String>,
}

impl KeyLimits {
    pub fn new(rules: &rules::KeyLimits) -> Result<Self, Invalid> {
        Ok(Self {
            user: PerKey::new(rules.user.clone())?,
            poll: PerKey::new(rules.poll.clone())?,
            tenant: PerKey::new(rules.tenant.clone())?,
            caller: PerKey::new(rules.caller.clone())?,
            webhook: PerKey::new(rules.webhook.clone())?,
        })
    }

    pub fn apply(&self, rules: &rules::KeyLimits) -> Result<(), Invalid> {
        self.user.reconfigure(&rules.user)?;
        self.poll.reconfigure(&rules.poll)?;
        self.tenant.reconfigure(&rules.tenant)?;
        self.caller.reconfigure(&rules.caller)?;
        self.webhook.reconfigure(&rules.webhook)
    }

    /// Takes one from every quota that the request counts against.
    pub fn take(&self, asking: &Asking, which: KeyLimit, governed: &mut Governed) -> Result<(), Refusal> {
        match asking {
            Asking::User(user) => {
                let tier = user.tier.as_deref();
                let id = user.id.as_uuid();
                match which {
                    KeyLimit::User => take(&self.user, &id, tier, USER, governed)?,
                    KeyLimit::Poll => take(&self.poll, &id, tier, POLL, governed)?,
                }
                match &user.tenant {
                    // After the user's own, so that one who is above it takes nothing from the tenant.
                    Some(tenant) => take(&self.tenant, tenant, tier, TENANT, governed),
                    None => Ok(()),
                }
            }
            Asking::Caller(caller) => take(&self.caller, &caller.0, None, CALLER, governed),
            Asking::Sender(sender) => take(&self.webhook, &sender.0, None, WEBHOOK, governed),
            // Few, and known by name; beside the services, of which none can be called so.
            Asking::Operator(operator) => {
                take(&self.caller, &format!("operator {}", operator.name), None, CALLER, governed)
            }
        }
    }

    pub fn evict_idle(&self) {
        self.user.evict_idle();
        self.poll.evict_idle();
        self.tenant.evict_idle();
        self.caller.evict_idle();
        self.webhook.evict_idle();
    }

    pub fn snapshot(&self) -> Value {
        let [user, poll, tenant, caller, webhook] = self.snapshots().map(|(_, snapshot)| snapshot);
        json!({"user": user, "poll": poll, "tenant": tenant, "caller": caller, "webhook": webhook})
    }

    pub fn measure(&self) {
        for (mechanism, snapshot) in self.snapshots() {
            let free = snapshot.max_keys.saturating_sub(snapshot.keys);
            metrics::gauge!("stability_limiter_keys", "mechanism" => mechanism).set(snapshot.keys as f64);
            metrics::gauge!("stability_limiter_keys_free", "mechanism" => mechanism).set(free as f64);
        }
    }

    fn snapshots(&self) -> [(&'static str, resilience::rate_limit::PerKeySnapshot); 5] {
        [
            (USER, self.user.snapshot()),
            (POLL, self.poll.snapshot()),
            (TENANT, self.tenant.snapshot()),
            (CALLER, self.caller.snapshot()),
            (WEBHOOK, self.webhook.snapshot()),
        ]
    }
}

fn take<K: std::hash::Hash + Eq + Clone + std::fmt::Debug>(
    limits: &PerKey<K>,
    key: &K,
    tier: Option<&str>,
    mechanism: &'static str,
    governed: &mut Governed,
) -> Result<(), Refusal> {
    let tier = tier.map_or(Tier::DEFAULT, |name| limits.tier(name));
    let policy = mechanism.trim_start_matches("rate_limit.");
    let admitted = limits.check(key, tier).map_err(|limited| Refusal::rate_limited(mechanism, policy, limited))?;
    governed.add(policy, &admitted);
    Ok(())
}
