//! What the guards of one process know together: how calls went, in and out, and what follows from it by composite
//! rules; and who is told when a breaker changes its state, or a person has to decide.
//!
//! A call in is one of a consumer to an API of ours, whose provider is this service. A call out is one to a downstream
//! in the course of such a request: the same consumer and API, another provider. So one rule can say "when coupons
//! fail for orders, orders do without", and another "when a tenant's orders mostly fail, refuse that tenant's".

use std::{sync::Arc, time::Duration};

use resilience::composite::{Action, Call, Composite, Eased, Observation, Rejection, RuleSnapshot};
use rules::Rules;
use serde::Serialize;

use crate::{RequestContext, alerts::Alerts};

/// One a process; clones share it.
#[derive(Clone, Default)]
pub struct Signals(Arc<Inside>);

struct Inside {
    composite: Composite,
    alerts: Alerts,
}

impl Default for Inside {
    fn default() -> Self {
        Self { composite: Composite::new(Default::default()), alerts: Alerts::default() }
    }
}

impl Signals {
    /// Follows the rules. What was counted for a rule stays where it counts the same.
    pub(crate) fn apply(&self, rules: &Rules) {
        self.0.composite.reconfigure(rules.composite.clone());
    }

    pub(crate) fn alerts(&self) -> &Alerts {
        &self.0.alerts
    }

    /// Posts news of kind `alert` to `ALERT_WEBHOOK_URL`, where that is set; never waits. `facts` are an object, and hold
    /// nothing secret.
    pub fn alert(&self, alert: &'static str, facts: &impl Serialize) {
        self.0.alerts.tell(alert, facts);
    }

    /// Whether a rule refuses this call.
    pub(crate) fn check(&self, context: &RequestContext, provider: &str) -> Result<(), Rejection> {
        self.0.composite.check(&call(context, provider)).map(drop)
    }

    /// Counts a call that was made, and tells of the rules that it was the last straw for.
    pub(crate) fn record(&self, context: &RequestContext, provider: &str, failed: bool, latency: Duration, bytes: u64) {
        let observation = Observation { failed, latency, bytes };
        for trip in self.0.composite.record(&call(context, provider), &observation) {
            tracing::warn!(
                rule = trip.rule, key = trip.key, action = %trip.action, reason = trip.reason,
                "a composite rule holds from now on"
            );
            metrics::counter!("stability_composite_trips_total", "rule" => trip.rule).increment(1);
        }
    }

    pub(crate) fn eased(&self, context: &RequestContext) -> Vec<Eased> {
        self.0.composite.eased(&context.consumer, &context.api)
    }

    /// For `/internal/state`.
    pub(crate) fn snapshot(&self) -> Vec<RuleSnapshot> {
        self.0.composite.snapshot()
    }

    /// Gauges, set when somebody asks for them.
    pub(crate) fn measure(&self) {
        for rule in self.snapshot() {
            let held = u32::try_from(rule.holds_for.len()).unwrap_or(u32::MAX);
            metrics::gauge!("stability_composite_keys_held", "rule" => rule.rule).set(f64::from(held));
        }
    }
}

fn call<'a>(context: &'a RequestContext, provider: &'a str) -> Call<'a> {
    Call { consumer: &context.consumer, api: &context.api, provider }
}

/// The mechanism by which a rule refuses, as problems and metrics have it.
pub(crate) fn mechanism(rejection: &Rejection) -> String {
    format!("{FAMILY}.{}", rejection.rule)
}

/// Whether a rule that refuses does so as a breaker does.
pub(crate) fn breaks(rejection: &Rejection) -> bool {
    rejection.action == Action::Break
}

/// What the mechanisms begin with.
pub(crate) const FAMILY: &str = "composite";
