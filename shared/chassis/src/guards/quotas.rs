//! Quotas of the whole cluster, by the name that a route's rule gives.
//!
//! Instances that have a Redis lease from one count in it ([`cache::quota`]). One that has none takes its part: the
//! limit divided by the instances that the rule expects. A quota is made when a route of this service first names it,
//! and follows its rule from then on; the others' quotas are none of ours, since to be present in one is to be counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::Arc,
};

use arc_swap::ArcSwap;
use cache::{BadQuota, ConnectionManager, Quota, QuotaConfig, Refused, Window};
use contracts::Service;
use resilience::{
    Deadline,
    rate_limit::{Invalid, Limiter, LimiterConfig, SlidingWindowConfig},
};
use rules::{QuotaAlgorithm, Rules};
use serde_json::{Map, Value, json};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::timeout_at,
};
use uuid::Uuid;

use super::{rate_limit_headers::Governed, refusal::Refusal};

/// What the mechanisms begin with.
pub(super) const FAMILY: &str = "quota";
/// All requests of a route count together. A quota for each user would need a key here.
const KEY: &str = "all";

/// The Redis that the instances share.
#[derive(Clone)]
pub struct SharedRedis {
    pub connection: ConnectionManager,
    /// Before every key.
    pub prefix: String,
}

/// A quota that cannot be made, or cannot take its rule.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    #[error(transparent)]
    Shared(#[from] BadQuota),
    #[error(transparent)]
    Own(#[from] Invalid),
}

pub(super) struct Quotas {
    service: Service,
    instance: String,
    redis: Option<SharedRedis>,
    by_name: ArcSwap<BTreeMap<String, Named>>,
}

#[derive(Clone)]
struct Named {
    mechanism: Arc<str>,
    count: Count,
}

#[derive(Clone)]
enum Count {
    Leased(Quota),
    /// Ours alone.
    Part(Arc<Limiter>),
}

impl Quotas {
    pub fn new(service: Service, instance: &str, redis: Option<SharedRedis>, rules: &Rules) -> Result<Self, BadRule> {
        // Two that were given one name would count as one, and each would take the share of both.
        let instance = format!("{instance}-{}", Uuid::new_v4().simple());
        let new = Self { service, instance, redis, by_name: ArcSwap::default() };
        new.apply(rules)?;
        Ok(new)
    }

    pub fn apply(&self, rules: &Rules) -> Result<(), BadRule> {
        let before = self.by_name.load();
        let mut after = BTreeMap::new();
        for (name, rule) in wanted(self.service, rules) {
            let named = match before.get(name) {
                Some(named) => {
                    named.count.reconfigure(rule)?;
                    named.clone()
                }
                None => Named { mechanism: format!("{FAMILY}.{name}").into(), count: self.count(name, rule)? },
            };
            after.insert(name.to_owned(), named);
        }
        self.by_name.store(Arc::new(after));
        Ok(())
    }

    /// Takes one from the quota of this name.
    pub async fn take(&self, name: &str, deadline: Deadline, governed: &mut Governed) -> Result<(), Refusal> {
        let Some(Named { mechanism, count }) = self.by_name.load().get(name).cloned() else { return Ok(()) };
        match count {
            Count::Leased(quota) => match timeout_at(deadline.instant(), quota.check(KEY, NonZeroU32::MIN)).await {
                Ok(Ok(granted)) => {
                    governed.push(&mechanism, granted.limit, granted.window, granted.remaining, granted.reset);
                }
                Ok(Err(Refused::Limited(limited))) => {
                    let mut refusing = Governed::default();
                    refusing.push(&mechanism, limited.limit, limited.window, 0, limited.reset);
                    let (limit, window) = (limited.limit, limited.window);
                    return Err(Refusal::over_quota(mechanism, limit, window, limited.retry_after, refusing));
                }
                // A weight of one is above no valid limit.
                Ok(Err(Refused::Exceeds(_))) => {}
                Err(_) => return Err(Refusal::too_late()),
            },
            Count::Part(limiter) => match limiter.check() {
                Ok(admitted) => governed.add(&mechanism, &admitted),
                Err(limited) => {
                    let refusing = Governed::by(&mechanism, &limited);
                    let (limit, window) = (limited.limit, limited.window);
                    return Err(Refusal::over_quota(mechanism, limit, window, limited.retry_after, refusing));
                }
            },
        }
        Ok(())
    }

    pub fn snapshot(&self) -> Value {
        let shown = self.by_name.load().iter().map(|(name, named)| (name.clone(), named.count.snapshot())).collect();
        Value::Object(shown)
    }

    pub fn measure(&self) {
        for named in self.by_name.load().values() {
            let gauge = |name: &'static str, value: f64| {
                metrics::gauge!(name, "mechanism" => named.mechanism.to_string()).set(value);
            };
            metrics::counter!("stability_rate_limited_total", "mechanism" => named.mechanism.to_string()).increment(0);
            match &named.count {
                Count::Leased(quota) => {
                    let now = quota.snapshot();
                    gauge("stability_quota_replicas", f64::from(now.replicas));
                    gauge("stability_quota_redis_paused", f64::from(u8::from(now.paused)));
                    let counted = |name: &'static str, value: u64| {
                        metrics::counter!(name, "mechanism" => named.mechanism.to_string()).absolute(value);
                    };
                    counted("stability_quota_round_trips_total", now.round_trips);
                    counted("stability_quota_failures_total", now.failures);
                    counted("stability_quota_admitted_leased_total", now.admitted_leased);
                    counted("stability_quota_admitted_locally_total", now.admitted_locally);
                }
                Count::Part(limiter) => {
                    gauge("stability_limiter_permits_available", f64::from(limiter.snapshot().remaining));
                }
            }
        }
    }

    fn count(&self, name: &str, rule: &rules::Quota) -> Result<Count, BadRule> {
        Ok(match &self.redis {
            Some(SharedRedis { connection, prefix }) => {
                let config = QuotaConfig { name: name.to_owned(), prefix: prefix.clone(), ..shared(rule) };
                Count::Leased(Quota::new(connection.clone(), config, &self.instance)?)
            }
            None => Count::Part(Arc::new(Limiter::new(part(rule))?)),
        })
    }

    fn leased(&self) -> Vec<(String, Quota)> {
        let by_name = self.by_name.load();
        let leased = by_name.iter().filter_map(|(name, named)| match &named.count {
            Count::Leased(quota) => Some((name.clone(), quota.clone())),
            Count::Part(_) => None,
        });
        leased.collect()
    }
}

impl Count {
    fn reconfigure(&self, rule: &rules::Quota) -> Result<(), BadRule> {
        match self {
            Self::Leased(quota) => quota.reconfigure(shared(rule))?,
            Self::Part(limiter) => {
                limiter.reconfigure(part(rule))?;
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Value {
        let (kind, figures) = match self {
            Self::Leased(quota) => ("leased", json!(quota.snapshot())),
            Self::Part(limiter) => ("part", json!(limiter.snapshot())),
        };
        let mut shown = Map::from_iter([("count".to_owned(), json!(kind))]);
        shown.extend(figures.as_object().cloned().unwrap_or_default());
        Value::Object(shown)
    }
}

/// Says in every leased quota that this instance is there. Dropped, it says so no more.
#[derive(Default)]
pub(super) struct Presence {
    saying: BTreeMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

impl Presence {
    /// Begins for new quotas and ends for those that are gone.
    pub fn follow(&mut self, quotas: &Quotas) {
        let leased = quotas.leased();
        let names: BTreeSet<_> = leased.iter().map(|(name, _)| name.as_str()).collect();
        self.saying.retain(|name, task| {
            let stays = names.contains(name.as_str());
            if !stays {
                task.abort();
            }
            stays
        });
        for (name, quota) in leased {
            let tasks = &mut self.tasks;
            self.saying.entry(name).or_insert_with(|| tasks.spawn(async move { quota.keep_presence().await }));
        }
    }
}

/// The quotas that routes of this service name.
fn wanted(service: Service, rules: &Rules) -> impl Iterator<Item = (&str, &rules::Quota)> {
    let of_ours = rules.route.iter().filter(move |(route, _)| rules::service_of(route) == Some(service.as_str()));
    let names: BTreeSet<&str> = of_ours.filter_map(|(_, rule)| rule.quota.as_deref()).collect();
    names.into_iter().filter_map(|name| Some((name, rules.quota.get(name)?)))
}

/// The rule as the cluster's count has it, but for the name.
fn shared(rule: &rules::Quota) -> QuotaConfig {
    QuotaConfig {
        name: FAMILY.to_owned(),
        prefix: String::new(),
        limit: rule.limit,
        window_ms: rule.window,
        algorithm: match rule.algorithm {
            QuotaAlgorithm::Sliding => Window::Sliding,
            QuotaAlgorithm::Fixed => Window::Fixed,
        },
        max_lease: rule.max_lease,
        adaptive: rule.adaptive,
        lease_for_ms: rule.lease_for,
        timeout_ms: rule.timeout,
        pause_after: rule.pause_after,
        pause_ms: rule.pause,
        local_burst_ms: rule.local_burst,
        expected_replicas: rule.expected_replicas,
        heartbeat_ms: rule.heartbeat,
        max_keys: rule.max_keys,
    }
}

/// What is left of it for one instance that cannot ask the others.
fn part(rule: &rules::Quota) -> LimiterConfig {
    let limit = (rule.limit / rule.expected_replicas.max(1)).max(1);
    LimiterConfig::SlidingWindow(SlidingWindowConfig { limit, window: rule.window })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(text: &str) -> Rules {
        Rules::from_toml(text).unwrap()
    }

    async fn admitted(quotas: &Quotas, name: &str) -> usize {
        let mut count = 0;
        while quotas.take(name, Deadline::after(Duration::from_secs(1)), &mut Governed::default()).await.is_ok() {
            count += 1;
            assert!(count < 10_000, "it refuses nobody");
        }
        count
    }

    #[tokio::test]
    async fn without_redis_an_instance_takes_its_part_and_keeps_what_it_counted_under_other_limits() {
        let first = rules("[quota.orders]\nlimit = 100\nwindow_ms = 3600000\nexpected_replicas = 4");
        let quotas = Quotas::new(Service::Order, "order-0", None, &first).unwrap();
        assert_eq!(admitted(&quotas, "orders").await, 25);
        quotas.apply(&rules("[quota.orders]\nlimit = 100\nwindow_ms = 3600000\nexpected_replicas = 2")).unwrap();
        assert_eq!(admitted(&quotas, "orders").await, 25);
        assert_eq!(quotas.snapshot()["orders"]["count"], "part");
    }

    #[tokio::test]
    async fn only_the_quotas_of_ones_own_routes_are_taken_part_in() {
        let text = "[route.\"GET /v1/stock\"]\nquota = \"stock\"\n[quota.stock]\nlimit = 9\n[quota.unused]\nlimit = 9";
        let names = |service| {
            let quotas = Quotas::new(service, "a", None, &rules(text)).unwrap();
            quotas.by_name.load().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(Service::Order), ["orders"]);
        assert_eq!(names(Service::Inventory), ["stock"]);
        assert!(names(Service::Coupon).is_empty());
    }
}
