//! Routes: how long, how many, how important.

use std::{collections::BTreeMap, time::Duration};

use resilience::rate_limit::{LimiterConfig, Quota};
use serde::{Deserialize, Serialize};

use super::{KeyLimit, Rules, ms};
use crate::millis;

/// Every route that rules can name. A name that is not here would govern nothing, and nobody would notice, so it is
/// refused; each service refuses to start with a route of its own that is missing here.
pub const ROUTES: &[&str] = &[
    Rules::PLACE_ORDER,
    "GET /v1/orders",
    "GET /v1/orders/{order_id}",
    "GET /v1/orders/{order_id}/history",
    "POST /v1/orders/{order_id}/cancel",
    "GET /v1/products",
    "GET /v1/products/{sku}",
    "GET /v1/operator/orders",
    "GET /v1/operator/orders/{order_id}",
    "GET /v1/operator/orders/{order_id}/history",
    "PUT /v1/reservations/{order_id}",
    "GET /v1/reservations/{order_id}",
    "POST /v1/reservations/{order_id}/commit",
    "POST /v1/reservations/{order_id}/release",
    "GET /v1/stock",
    "GET /v1/stock/{sku}",
    "POST /v1/stock/{sku}/restock",
    Rules::CHARGE,
    "GET /v1/payments/{attempt_id}",
    "POST /v1/payments/{attempt_id}/fence",
    "POST /v1/payments/{attempt_id}/refunds",
    "POST /v1/webhooks/provider",
    "GET /v1/operator/reviews",
    "GET /v1/operator/refund-reviews",
    "POST /v1/operator/reviews/{attempt_id}/ask",
    "PUT /v1/redemptions/{order_id}",
    "GET /v1/redemptions/{order_id}",
    "POST /v1/redemptions/{order_id}/commit",
    "POST /v1/redemptions/{order_id}/release",
    "GET /v1/coupons/{code}",
    "GET /v1/operator/compensations",
    "GET /v1/recommendations",
    "GET /v1/rules",
    "POST /v1/rules",
    "GET /v1/rules/current",
    "POST /v1/rules/applied",
    "GET /v1/rules/instances",
    "POST /v1/rules/validate",
    "GET /v1/rules/{version}",
    "GET /v1/rules/{version}/diff",
    "POST /v1/rules/{version}/canary",
    "POST /v1/rules/{version}/promote",
    "POST /v1/rules/{version}/rollback",
    "GET /v1/switches",
    "POST /v1/switches",
    "GET /v1/audit",
    "POST /v1/session",
    "GET /v1/session",
    "DELETE /v1/session",
    "GET /v1/live",
    "GET /v1/events",
    "GET /v1/dead-letters",
    "POST /v1/dead-letters/{letter}/replay",
    "GET /v1/reviews",
    "POST /v1/reviews/{review}/ask",
    "GET /v1/faults",
    "POST /v1/faults",
    "DELETE /v1/faults",
    "DELETE /v1/faults/{link}/{name}",
];

/// Whose route it is; `None` for one that is not in [`ROUTES`]. The console's routes to orders and products are called as
/// order's, and are taken for those.
#[must_use]
pub fn service_of(route: &str) -> Option<&'static str> {
    let (_, path) = ROUTES.iter().find(|known| **known == route)?.split_once(" /v1/")?;
    let mut parts = path.split('/');
    Some(match (parts.next()?, parts.next()) {
        ("reservations" | "stock", _) => "inventory",
        ("payments" | "webhooks", _) | ("operator", Some("reviews")) => "payment",
        ("redemptions" | "coupons", _) | ("operator", Some("compensations")) => "coupon",
        ("recommendations", _) => "recommendation",
        ("rules" | "switches" | "audit" | "session" | "live" | "events" | "dead-letters" | "reviews" | "faults", _) => {
            "console"
        }
        _ => "order",
    })
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// The most time that a request may take, whatever its caller would wait.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// A request that arrives with less is refused at once: nothing useful fits into it.
    #[serde(rename = "min_useful_budget_ms", with = "millis")]
    pub min_useful_budget: Duration,
    /// Requests in flight at once on this route of one instance; unset: only the service's own cap holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Requests that may wait at once for something to change (`Prefer: wait=N`); one more is answered at once. While it
    /// waits, a request does next to nothing, so it is counted here and not among those in flight.
    pub max_waiting: u32,
    /// For all callers of one instance together.
    pub limit: LimiterConfig,
    /// Which limit per user a user's request counts against.
    pub key_limit: KeyLimit,
    /// Which quota of the whole cluster it counts against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
    /// What a request is taken for that does not say; a caller outside can lower it and not raise it.
    pub criticality: Criticality,
}

/// Who goes first under pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criticality {
    Sheddable,
    Critical,
}

impl Criticality {
    /// As documents and headers have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::Critical => "critical",
        }
    }
}

const fn per_second(rate: f64, burst: u32) -> LimiterConfig {
    LimiterConfig::TokenBucket(Quota::new(rate, burst))
}

impl Default for Route {
    fn default() -> Self {
        Self {
            // One second holds any single statement many times over; 10 ms is about one of them and a hop.
            timeout: ms(1_000),
            min_useful_budget: ms(10),
            max_in_flight: None,
            // A wait costs a task, a few kilobytes and its client's connection, of which a worker holds 2 048; and one
            // look at the database every quarter of a second, 400 a second for all, half of what a route's reads may do.
            max_waiting: 100,
            // Three times what order lets in, since it calls each of the others about once and they retry.
            limit: per_second(1_000.0, 1_500),
            key_limit: KeyLimit::User,
            quota: None,
            criticality: Criticality::Critical,
        }
    }
}

/// The routes whose rule is not the default.
pub(super) fn defaults() -> BTreeMap<String, Route> {
    // What a payment bulkhead of 40 carries at 100 ms is 400 a second; three quarters of it leave headroom. The burst
    // is a second and a half of that, as long as a queue may be that drains within the deadline.
    let orders = per_second(300.0, 450);
    // A read is one statement, or one call to inventory; above this it would take the pool from the orders.
    let reads = Route { limit: per_second(800.0, 1_200), ..Route::default() };
    // Pages can wait, orders cannot.
    let pages = Route { criticality: Criticality::Sheddable, ..reads.clone() };
    // Clients ask for a pending order again and again; that must not use up what they need to place one.
    let polled = Route { key_limit: KeyLimit::Poll, ..reads.clone() };
    let place = Route { timeout: ms(3_000), limit: orders, quota: Some("orders".to_owned()), ..Route::default() };
    let cancel = Route { timeout: ms(3_000), limit: orders, ..Route::default() };
    // Payment has to outlast its provider, and to record the outcome after that.
    // Less than 50 ms cannot hold a provider's answer, so order does not begin a charge with less.
    let charge = Route { timeout: ms(2_000), min_useful_budget: ms(50), ..Route::default() };
    let recommendations = Route { criticality: Criticality::Sheddable, ..Route::default() };
    // A service waits here for news, half a minute at a time; every instance of every service does, all the time.
    let news = Route { timeout: ms(31_000), max_waiting: 1_000, ..Route::default() };
    // A few people look, and none of them is waited for by an order. A list that is filtered may read far.
    let operators = Route {
        timeout: ms(2_000),
        limit: per_second(50.0, 50),
        criticality: Criticality::Sheddable,
        ..Route::default()
    };
    // What an operator waits for while the console asks others.
    let asking = |seconds| Route { timeout: Duration::from_secs(seconds), ..operators.clone() };
    [
        (Rules::PLACE_ORDER, place),
        ("POST /v1/orders/{order_id}/cancel", cancel),
        ("GET /v1/orders", reads.clone()),
        ("GET /v1/orders/{order_id}", polled),
        ("GET /v1/orders/{order_id}/history", reads),
        ("GET /v1/products", pages.clone()),
        ("GET /v1/products/{sku}", pages),
        (Rules::CHARGE, charge),
        ("GET /v1/recommendations", recommendations),
        ("GET /v1/rules/current", news),
        ("GET /v1/operator/orders", operators.clone()),
        ("GET /v1/operator/orders/{order_id}", operators.clone()),
        ("GET /v1/operator/orders/{order_id}/history", operators.clone()),
        ("GET /v1/operator/reviews", operators.clone()),
        ("GET /v1/operator/refund-reviews", operators.clone()),
        ("POST /v1/operator/reviews/{attempt_id}/ask", operators.clone()),
        ("GET /v1/operator/compensations", operators.clone()),
        // Guesses of all who guess; each name has a limit of its own besides.
        ("POST /v1/session", Route { limit: per_second(5.0, 20), ..Route::default() }),
        // Kafka is read from the beginning of each topic of dead letters.
        ("GET /v1/dead-letters", Route { limit: per_second(5.0, 10), ..asking(15) }),
        ("POST /v1/dead-letters/{letter}/replay", Route { limit: per_second(5.0, 10), ..asking(15) }),
        ("GET /v1/reviews", asking(3)),
        ("POST /v1/reviews/{review}/ask", asking(3)),
        ("GET /v1/faults", asking(3)),
        ("POST /v1/faults", asking(3)),
        ("DELETE /v1/faults", asking(5)),
        ("DELETE /v1/faults/{link}/{name}", asking(3)),
    ]
    .into_iter()
    .map(|(name, route)| (name.to_owned(), route))
    .collect()
}
