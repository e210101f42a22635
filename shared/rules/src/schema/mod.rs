//! The schema, with every default and its reason.
//!
//! The limits of the patterns (`RetryConfig`, `BreakerConfig` …) come from `resilience`; here they are put together
//! and given the values that this system needs.

mod compensate;
mod degrade;
mod downstream;
mod key_limits;
mod quota;
mod reconcile;
mod route;
mod storage;

use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

use resilience::composite::CompositeConfig;
use serde::{Deserialize, Serialize};

pub use compensate::Compensate;
pub use degrade::{
    AdmissionLevel, AvailabilityLevel, CouponLevel, Degrade, FEATURES, Levels, PaymentLevel, RecommendationLevel,
    feature,
};
pub use downstream::{Downstream, Downstreams};
pub use key_limits::{KeyLimit, KeyLimits};
pub use quota::{Quota, QuotaAlgorithm};
pub use reconcile::Reconcile;
pub use route::{Criticality, ROUTES, Route, service_of};
pub use storage::{Cache, Database, Idempotency, Messaging, Recover};

use crate::millis;

const fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// A whole rule set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Raised by whoever publishes the document; 0 is the built-in one.
    pub version: i64,
    pub gateway: Gateway,
    pub network: Network,
    pub chain: Chain,
    /// What one instance of a service takes on at once.
    pub service: Services,
    /// By method and path pattern, as in `[route."POST /v1/orders"]`. Routes that are not named take the default.
    pub route: BTreeMap<String, Route>,
    pub downstream: Downstreams,
    /// For each user, tenant, caller or sender of webhooks.
    pub key_limits: KeyLimits,
    /// Quotas that all instances share, by the name that a route gives.
    pub quota: BTreeMap<String, Quota>,
    pub degrade: Degrade,
    /// Rules over several signals, by name. None by default: they are written for a system that is known.
    pub composite: BTreeMap<String, CompositeConfig>,
    pub idempotency: Idempotency,
    pub recover: Recover,
    pub compensate: Compensate,
    pub reconcile: Reconcile,
    pub messaging: Messaging,
    pub database: Database,
    pub cache: Cache,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            version: 0,
            gateway: Gateway::default(),
            network: Network::default(),
            chain: Chain::default(),
            service: Services::default(),
            route: route::defaults(),
            downstream: Downstreams::default(),
            key_limits: KeyLimits::default(),
            quota: quota::defaults(),
            degrade: Degrade::default(),
            composite: BTreeMap::new(),
            idempotency: Idempotency::default(),
            recover: Recover::default(),
            compensate: Compensate::default(),
            reconcile: Reconcile::default(),
            messaging: Messaging::default(),
            database: Database::default(),
            cache: Cache::default(),
        }
    }
}

impl Rules {
    pub const PLACE_ORDER: &'static str = "POST /v1/orders";
    pub const RESERVE: &'static str = "PUT /v1/reservations/{order_id}";
    pub const CHARGE: &'static str = "PUT /v1/payments/{attempt_id}";

    #[must_use]
    pub fn place_order_route(&self) -> &Route {
        self.route.get(Self::PLACE_ORDER).unwrap_or(&DEFAULT_ROUTE)
    }

    #[must_use]
    pub fn reserve_route(&self) -> &Route {
        self.route.get(Self::RESERVE).unwrap_or(&DEFAULT_ROUTE)
    }

    #[must_use]
    pub fn charge_route(&self) -> &Route {
        self.route.get(Self::CHARGE).unwrap_or(&DEFAULT_ROUTE)
    }

    /// The rule of a route, the default one where none is named.
    #[must_use]
    pub fn route(&self, method: &str, pattern: &str) -> &Route {
        let found = self
            .route
            .iter()
            .find(|(name, _)| name.strip_prefix(method).and_then(|rest| rest.strip_prefix(' ')) == Some(pattern));
        found.map_or(&DEFAULT_ROUTE, |(_, route)| route)
    }
}

static DEFAULT_ROUTE: LazyLock<Route> = LazyLock::new(Route::default);

/// What stands in front of order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gateway {
    /// How long the gateway waits for order. Its own route says the same; it is written here to be checked against.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
}

impl Default for Gateway {
    fn default() -> Self {
        // The outermost of the hierarchy 5 s > 3 s > 2 s > 1.5 s: what a person at a checkout still waits.
        Self { timeout: ms(5_000) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Taken off the remaining budget at each hop, for the answer to travel back and be written down.
    #[serde(rename = "reserve_ms", with = "millis")]
    pub reserve: Duration,
}

impl Default for Network {
    fn default() -> Self {
        // Some round trips within one network, and a pause of the scheduler.
        Self { reserve: ms(20) }
    }
}

/// What is shared by all hops of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Chain {
    /// Retries for the whole chain of calls that a request causes.
    pub retries: u32,
}

impl Default for Chain {
    fn default() -> Self {
        // A request passes three hops; one retry at each is what it may cost when everything goes slightly wrong.
        Self { retries: 3 }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Services {
    pub order: Service,
    pub inventory: Service,
    pub payment: Service,
    pub coupon: Service,
    pub recommendation: Service,
}

impl Services {
    #[must_use]
    pub const fn all(&self) -> [(&'static str, &Service); 5] {
        [
            ("order", &self.order),
            ("inventory", &self.inventory),
            ("payment", &self.payment),
            ("coupon", &self.coupon),
            ("recommendation", &self.recommendation),
        ]
    }

    /// `None` for a name that is no service.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Service> {
        self.all().into_iter().find_map(|(known, service)| (known == name).then_some(service))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Service {
    /// Requests in flight at once; above it, 503 `overloaded`.
    pub max_in_flight: u32,
    /// The share of it above which sheddable requests are refused, so that critical ones still find room.
    pub sheddable_share: f64,
}

impl Default for Service {
    fn default() -> Self {
        // 300 arrive in a second, and a second is the longest that one in good health takes. A fifth is kept for what
        // is critical.
        Self { max_in_flight: 300, sheddable_share: 0.8 }
    }
}

#[cfg(test)]
mod tests {
    use resilience::{breaker::Window, rate_limit::LimiterConfig};

    use super::*;

    fn bucket(limit: LimiterConfig) -> (f64, u32) {
        match limit {
            LimiterConfig::TokenBucket(quota) => (quota.per_second, quota.burst),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_defaults_carry_the_hierarchy_of_timeouts() {
        let rules = Rules::default();
        let chain = [
            rules.gateway.timeout,
            rules.place_order_route().timeout,
            rules.downstream.payment.timeout,
            rules.downstream.provider.timeout,
        ];
        assert_eq!(chain, [ms(5_000), ms(3_000), ms(2_000), ms(1_500)]);
        let inventory = &rules.downstream.inventory;
        assert_eq!((inventory.timeout, inventory.attempt_timeout), (ms(400), ms(150)));
        assert_eq!((rules.downstream.coupon.timeout, rules.downstream.recommendation.timeout), (ms(150), ms(150)));
    }

    #[test]
    fn the_defaults_carry_the_limits_of_the_contract() {
        let rules = Rules::default();
        assert_eq!(bucket(rules.place_order_route().limit), (300.0, 450));
        for read in ["/v1/orders", "/v1/orders/{order_id}", "/v1/products", "/v1/products/{sku}"] {
            assert_eq!(bucket(rules.route("GET", read).limit), (800.0, 1_200), "{read}");
        }
        assert_eq!(rules.service.order.max_in_flight, 300);
        assert_eq!(rules.key_limits.user.default.per_second, 10.0);
        assert_eq!(rules.key_limits.user.tiers["vip"].per_second, 100.0);
        assert_eq!(rules.chain.retries, 3);
        let payment = &rules.downstream.payment;
        assert_eq!((payment.bulkhead.cap, payment.bulkhead.wait), (40, ms(50)));
        assert_eq!((payment.retry.budget_ratio, payment.retry.budget_floor_per_second), (0.2, 1));
    }

    #[test]
    fn the_defaults_carry_the_breakers_of_the_contract() {
        let rules = Rules::default();
        for (name, downstream) in rules.downstream.all() {
            let breaker = &downstream.breaker;
            let degradable = name == "coupon" || name == "recommendation";
            let expected = if degradable { (60, 20, 0.6, 15_000, 5) } else { (100, 20, 0.5, 30_000, 10) };
            let ratio = if name == "payment" { 0.3 } else { expected.2 };
            assert_eq!(breaker.window, Window::Calls(expected.0), "{name}");
            assert_eq!((breaker.minimum_calls, breaker.failure_ratio), (expected.1, ratio), "{name}");
            assert_eq!((breaker.slow_ratio, breaker.open, breaker.probes), (0.6, ms(expected.3), expected.4), "{name}");
            let steps: Vec<_> = breaker.ramp.steps.iter().map(|step| (step.percent, step.duration)).collect();
            assert_eq!(steps, [(10, ms(30_000)), (30, ms(30_000)), (100, ms(30_000))], "{name}");
        }
        assert_eq!(rules.downstream.payment.breaker.slow_threshold, ms(1_000));
    }
}
