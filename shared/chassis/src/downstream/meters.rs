//! What is counted of one callee. The handles are looked up once: by name each time, that would take as long as all
//! guards together.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use resilience::breaker::{State, Transition};

use super::{CallError, DownstreamSnapshot};
use crate::telemetry;

pub(super) struct Meters {
    name: &'static str,
    /// Of tries that waited for a permit or a turn.
    pub guard_wait: Histogram,
    in_flight: Gauge,
    pub bulkhead_rejected: Counter,
    pub rate_limited: Counter,
    pub breaker_rejected: Counter,
    breaker_state: Gauge,
    ramp_percent: Gauge,
    opened: Counter,
    half_open_failures: Counter,
    failure_ratio: Gauge,
    slow_ratio: Gauge,
    bulkhead_waiting: Gauge,
    bulkhead_cap: Gauge,
    permits_available: Gauge,
    retry_budget: Gauge,
    timeouts: Counter,
    /// Over, and later than the breaker likes, but not by our timeout: the two are told apart.
    slow: Counter,
    answered: Histogram,
    not_sent: Histogram,
    refused: Histogram,
    unknown: Histogram,
}

impl Meters {
    pub fn new(name: &'static str) -> Self {
        // Handles that are made before the recorder stands count nothing, for ever.
        telemetry::metrics();
        // At zero before the first: of a series that begins with a one, a rate would not see it.
        for outcome in RETRY_OUTCOMES {
            retries(name, outcome).increment(0);
        }
        let took = |outcome: &'static str| histogram!("downstream_request_duration_seconds", "downstream" => name, "outcome" => outcome);
        Self {
            name,
            guard_wait: histogram!("downstream_guard_wait_seconds", "downstream" => name),
            in_flight: gauge!("stability_bulkhead_in_flight", "downstream" => name),
            bulkhead_rejected: counter!("stability_bulkhead_rejected_total", "downstream" => name),
            rate_limited: counter!(
                "stability_rate_limited_total", "mechanism" => "outbound", "downstream" => name
            ),
            breaker_rejected: counter!("stability_breaker_rejected_total", "downstream" => name),
            breaker_state: gauge!("stability_breaker_state", "downstream" => name),
            ramp_percent: gauge!("stability_ramp_percent", "downstream" => name),
            opened: counter!("stability_breaker_open_total", "downstream" => name),
            half_open_failures: counter!("stability_breaker_half_open_failures_total", "downstream" => name),
            failure_ratio: gauge!("stability_breaker_failure_ratio", "downstream" => name),
            slow_ratio: gauge!("stability_breaker_slow_ratio", "downstream" => name),
            bulkhead_waiting: gauge!("stability_bulkhead_waiting", "downstream" => name),
            bulkhead_cap: gauge!("stability_bulkhead_cap", "downstream" => name),
            permits_available: gauge!("stability_limiter_permits_available", "downstream" => name),
            retry_budget: gauge!("stability_retry_budget_available", "downstream" => name),
            timeouts: counter!("downstream_request_timeout_total", "downstream" => name),
            slow: counter!("downstream_request_slow_total", "downstream" => name),
            answered: took("answered"),
            not_sent: took("not_sent"),
            refused: took("refused"),
            unknown: took("unknown"),
        }
    }

    /// A try that is over.
    pub fn tried<T>(&self, outcome: &Result<T, CallError>, timed_out: bool, slow: bool, took: Duration) {
        let histogram = match outcome {
            Ok(_) => &self.answered,
            Err(CallError::NotSent(_)) => &self.not_sent,
            Err(CallError::Refused(_)) => &self.refused,
            Err(CallError::Unknown(_)) => &self.unknown,
        };
        histogram.record(took.as_secs_f64());
        if timed_out {
            self.timeouts.increment(1);
        } else if slow {
            self.slow.increment(1);
        }
        if let Err(error) = outcome {
            tracing::info!(downstream = self.name, outcome = self::outcome(outcome), reason = %error, "downstream call");
        }
    }

    pub fn retry(&self, outcome: &'static str) {
        // Seldom, so the name may be looked up.
        retries(self.name, outcome).increment(1);
    }

    /// The breaker has changed its state: logged and counted.
    pub fn changed(&self, transition: &Transition) {
        let Transition { number, from, to, failure_ratio, slow_ratio, calls, .. } = *transition;
        tracing::warn!(
            downstream = self.name, number, from = from.as_str(), to = to.as_str(), reason = ?transition.reason,
            failure_ratio, slow_ratio, calls, "the breaker changed its state"
        );
        self.breaker_state.set(f64::from(to.metric()));
        if matches!(to, State::Open | State::ForcedOpen) {
            self.opened.increment(1);
            if from == State::HalfOpen && to == State::Open {
                self.half_open_failures.increment(1);
            }
        }
    }

    /// What is a state and not an event.
    pub fn gauge(&self, now: &DownstreamSnapshot) {
        self.breaker_state.set(f64::from(now.breaker.state.metric()));
        // Of the calls, how many in a hundred the breaker lets through: some of them only while it climbs the ramp.
        let whole = if now.breaker.state.metric() == 0 { 100 } else { 0 };
        self.ramp_percent.set(f64::from(now.breaker.ramp.as_ref().map_or(whole, |ramp| ramp.percent)));
        self.failure_ratio.set(now.breaker.failure_ratio);
        self.slow_ratio.set(now.breaker.slow_ratio);
        if let Some(ms) = now.breaker.last_recovery_ms {
            // There is none before the first recovery, and a zero would look like a quick one.
            gauge!("stability_breaker_recovery_seconds", "downstream" => self.name)
                .set(Duration::from_millis(ms).as_secs_f64());
        }
        self.in_flight.set(f64::from(now.bulkhead.in_flight));
        self.bulkhead_waiting.set(f64::from(now.bulkhead.waiting));
        self.bulkhead_cap.set(f64::from(now.bulkhead.cap));
        self.permits_available.set(f64::from(now.limit.remaining));
        self.retry_budget.set(f64::from(now.retry_budget.available));
    }
}

/// What is known of a try's end, as metrics, logs and traces name it.
pub(super) const fn outcome<T>(outcome: &Result<T, CallError>) -> &'static str {
    match outcome {
        Ok(_) => "answered",
        Err(CallError::NotSent(_)) => "not_sent",
        Err(CallError::Refused(_)) => "refused",
        Err(CallError::Unknown(_)) => "unknown",
    }
}

/// How second tries end, and why one is not made.
const RETRY_OUTCOMES: [&str; 7] =
    ["succeeded", "failed", "tries_spent", "breaker_open", "no_time", "purse_empty", "budget_spent"];

fn retries(downstream: &'static str, outcome: &'static str) -> Counter {
    counter!("stability_retry_total", "downstream" => downstream, "outcome" => outcome)
}
