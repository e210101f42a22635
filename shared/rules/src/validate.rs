//! What one value must be given another: the document is judged as a whole.

use std::{fmt, time::Duration};

use crate::Rules;

/// A value that may not come into force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The key, as in the document.
    pub path: String,
    pub reason: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// Everything that is wrong with `rules`, not just the first.
pub fn violations(rules: &Rules) -> Vec<Invalid> {
    let mut found = Vec::new();
    positive(rules, &mut found);
    hierarchy(rules, &mut found);
    let (outbox, inbox) = (rules.messaging.outbox_retention, rules.messaging.inbox_retention);
    if inbox < outbox {
        found.push(Invalid {
            path: "messaging.inbox_retention_ms".into(),
            reason: format!(
                "{inbox:?} is below messaging.outbox_retention_ms ({outbox:?}): an event could be applied twice"
            ),
        });
    }
    found
}

fn positive(rules: &Rules, found: &mut Vec<Invalid>) {
    let mut check = |path: String, value: Duration| {
        if value.is_zero() {
            found.push(Invalid { path, reason: "must be greater than 0".into() });
        }
    };
    for (name, downstream) in downstreams(rules) {
        check(format!("downstream.{name}.timeout_ms"), downstream.timeout);
        check(format!("downstream.{name}.connect_timeout_ms"), downstream.connect_timeout);
        check(format!("downstream.{name}.pool_idle_ms"), downstream.pool_idle);
    }
    for (name, route) in &rules.route {
        check(format!("route.\"{name}\".timeout_ms"), route.timeout);
    }
    check("idempotency.lease_ms".into(), rules.idempotency.lease);
    check("idempotency.retention_ms".into(), rules.idempotency.retention);
    check("recover.interval_ms".into(), rules.recover.interval);
    check("messaging.relay_poll_ms".into(), rules.messaging.relay_poll);
    check("messaging.relay_lease_ms".into(), rules.messaging.relay_lease);
    check("messaging.outbox_retention_ms".into(), rules.messaging.outbox_retention);
    check("database.acquire_timeout_ms".into(), rules.database.acquire_timeout);
    check("database.lock_timeout_ms".into(), rules.database.lock_timeout);
    check("database.statement_timeout_ms".into(), rules.database.statement_timeout);
    check("cache.patience_ms".into(), rules.cache.patience);
    check("cache.fresh_ms".into(), rules.cache.fresh);
}

/// Each hop outlasts what it waits for, by the reserve at least: order > payment > provider.
fn hierarchy(rules: &Rules, found: &mut Vec<Invalid>) {
    let reserve = rules.network.reserve;
    let place_order = rules.place_order_route().timeout;
    let charge = rules.charge_route().timeout;
    let downstream = &rules.downstream;
    let mut inside = |path: &str, inner: Duration, outer_path: &str, outer: Duration, spare: Duration| {
        if inner + spare > outer {
            found.push(Invalid {
                path: path.into(),
                reason: format!("{inner:?} and {spare:?} of reserve do not fit into {outer_path} ({outer:?})"),
            });
        }
    };
    let order = "route.\"POST /v1/orders\".timeout_ms";
    inside(
        "downstream.provider.timeout_ms",
        downstream.provider.timeout,
        "downstream.payment.timeout_ms",
        downstream.payment.timeout,
        reserve,
    );
    inside(
        "downstream.provider.timeout_ms",
        downstream.provider.timeout,
        "route.\"PUT /v1/payments/{attempt_id}\".timeout_ms",
        charge,
        reserve,
    );
    // What comes one after the other has to fit together: stock, coupon, charge.
    let before = downstream.inventory.timeout + downstream.coupon.timeout + 3 * reserve;
    inside("downstream.payment.timeout_ms", downstream.payment.timeout, order, place_order, before);
    inside(order, place_order, "idempotency.lease_ms", rules.idempotency.lease, reserve);
}

fn downstreams(rules: &Rules) -> [(&'static str, &crate::Downstream); 5] {
    let d = &rules.downstream;
    [
        ("inventory", &d.inventory),
        ("payment", &d.payment),
        ("coupon", &d.coupon),
        ("recommendation", &d.recommendation),
        ("provider", &d.provider),
    ]
}
