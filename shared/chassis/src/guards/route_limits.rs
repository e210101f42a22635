//! A limiter for each route, for all of its callers together.
//!
//! There is one for every route that rules can name; what is at no such route (a wrong method, a path that is none) is
//! answered without work, and takes from nobody's.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use contracts::Service;
use resilience::{
    Deadline,
    rate_limit::{Admitted, Invalid, Limiter, LimiterConfig},
};
use rules::{ROUTES, Rules};
use serde_json::{Value, json};

use super::{in_flight::InFlight, refusal::Refusal};

pub(super) const MECHANISM: &str = "rate_limit.route";
/// Its name in the `RateLimit` headers.
pub(super) const POLICY: &str = "route";

pub(super) struct RouteLimits {
    /// By path pattern, then method, so that a look-up needs no key of its own.
    by_pattern: HashMap<&'static str, Vec<RouteLimit>>,
}

pub(super) struct RouteLimit {
    name: &'static str,
    method: &'static str,
    /// Replaced only where a rule names another kind of limiter.
    limiter: ArcSwap<Limiter>,
    /// Of this route alone.
    pub in_flight: InFlight,
    /// Those of them that wait for something to change.
    pub waiting: InFlight,
    /// A service shows the routes that are its own, used or not, and not those of its siblings.
    shown: AtomicBool,
}

impl RouteLimits {
    pub fn new(service: Service, rules: &Rules) -> Result<Self, Invalid> {
        let mut by_pattern: HashMap<_, Vec<_>> = HashMap::new();
        for &name in ROUTES {
            let Some((method, pattern)) = name.split_once(' ') else { continue };
            let limiter = Limiter::new(rules.route(method, pattern).limit)?;
            by_pattern.entry(pattern).or_default().push(RouteLimit {
                name,
                method,
                limiter: ArcSwap::from_pointee(limiter),
                in_flight: InFlight::default(),
                waiting: InFlight::default(),
                shown: AtomicBool::new(rules::service_of(name) == Some(service.as_str())),
            });
        }
        Ok(Self { by_pattern })
    }

    pub fn find(&self, method: &str, pattern: &str) -> Option<&RouteLimit> {
        self.by_pattern.get(pattern)?.iter().find(|route| route.method == method)
    }

    pub fn apply(&self, rules: &Rules) -> Result<(), Invalid> {
        for (pattern, routes) in &self.by_pattern {
            for route in routes {
                route.apply(rules.route(route.method, pattern).limit)?;
            }
        }
        Ok(())
    }

    pub fn snapshot(&self, rules: &Rules) -> Value {
        Value::Object(self.shown().map(|route| (route.name.to_owned(), route.snapshot(rules))).collect())
    }

    pub fn measure(&self) {
        for route in self.shown() {
            let remaining = route.limiter.load().snapshot().remaining;
            metrics::gauge!("stability_limiter_permits_available", "mechanism" => MECHANISM, "route" => route.name)
                .set(f64::from(remaining));
        }
    }

    fn shown(&self) -> impl Iterator<Item = &RouteLimit> {
        self.by_pattern.values().flatten().filter(|route| route.shown.load(Ordering::Relaxed))
    }
}

impl RouteLimit {
    /// Refuses where nothing is left, and takes nothing otherwise: whoever then fails at a quota of their own must not
    /// have used up what belongs to all. `Some` is what was earned at this very moment, and is taken.
    pub fn look(&self) -> Result<Option<Admitted>, Refusal> {
        self.shown.store(true, Ordering::Relaxed);
        let limiter = self.limiter.load();
        if limiter.snapshot().remaining > 0 {
            return Ok(None);
        }
        limiter.check().map(Some).map_err(|limited| Refusal::rate_limited(MECHANISM, POLICY, limited))
    }

    /// Takes one, after a wait where the limiter is one that paces.
    pub async fn take(&self, deadline: Deadline) -> Result<Admitted, Refusal> {
        let limiter = self.limiter.load_full();
        limiter.acquire(deadline).await.map_err(|limited| Refusal::rate_limited(MECHANISM, POLICY, limited))
    }

    /// The limiter, who waits, and the cap of this route alone where its rule has one.
    fn snapshot(&self, rules: &Rules) -> Value {
        let mut shown = json!(self.limiter.load().snapshot());
        let pattern = self.name.split_once(' ').map_or("", |(_, pattern)| pattern);
        let rule = rules.route(self.method, pattern);
        shown["waiting"] = json!({"taken": self.waiting.taken(), "limit": rule.max_waiting});
        if let Some(most) = rule.max_in_flight {
            shown["in_flight"] = json!({"taken": self.in_flight.taken(), "limit": most});
        }
        shown
    }

    fn apply(&self, config: LimiterConfig) -> Result<(), Invalid> {
        if !self.limiter.load().reconfigure(config)? {
            self.limiter.store(Arc::new(Limiter::new(config)?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(limit: &str) -> Rules {
        Rules::from_toml(&format!("[route.\"POST /v1/orders\"]\nlimit = {limit}")).unwrap()
    }

    async fn admitted(route: &RouteLimit) -> u32 {
        let mut count = 0;
        while route.take(Deadline::after(Duration::from_secs(1))).await.is_ok() {
            count += 1;
        }
        count
    }

    #[tokio::test]
    async fn a_look_takes_nothing_and_refuses_when_nothing_is_left() {
        let limits =
            RouteLimits::new(Service::Order, &rules("{ kind = \"token_bucket\", per_second = 0.01, burst = 5 }"))
                .unwrap();
        let route = limits.find("POST", "/v1/orders").unwrap();
        assert!((0..100).all(|_| matches!(route.look(), Ok(None))));
        assert_eq!(admitted(route).await, 5);
        assert!(route.look().is_err());
        assert!(limits.find("GET", "/v1/orders").unwrap().look().is_ok(), "another route is another bucket");
        assert!(limits.find("BREW", "/v1/orders").is_none());
    }

    #[tokio::test]
    async fn another_figure_keeps_what_was_spent_and_another_kind_begins_anew() {
        let limits =
            RouteLimits::new(Service::Order, &rules("{ kind = \"token_bucket\", per_second = 0.01, burst = 5 }"))
                .unwrap();
        let route = limits.find("POST", "/v1/orders").unwrap();
        assert_eq!(admitted(route).await, 5);
        limits.apply(&rules("{ kind = \"token_bucket\", per_second = 0.01, burst = 50 }")).unwrap();
        assert_eq!(admitted(route).await, 0);
        limits.apply(&rules("{ kind = \"fixed_window\", limit = 7, window_ms = 3600000 }")).unwrap();
        assert_eq!(admitted(route).await, 7);
    }
}
