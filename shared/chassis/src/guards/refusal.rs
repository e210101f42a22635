//! What a guard's refusal becomes: an answer, a count, and now and then a line in the log.
//!
//! Refusals come in floods, and a log line for each would take what the refusal was to save.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use actix_web::{Error, error::InternalError};
use contracts::{Problem, ProblemType};
use resilience::{
    composite::Rejection,
    rate_limit::{Clock, Invalid, Quota, RateLimited, TokenBucket},
};

use super::{key_limits, quotas, rate_limit_headers::Governed, route_limits};
use crate::{ApiProblem, problem, signals};

const IN_FLIGHT: &str = "in_flight";
const DEADLINE: &str = "deadline";
/// Log lines a second for each mechanism.
const LOGGED: Quota = Quota::new(10.0, 10);

/// A guard's no.
#[derive(Debug)]
pub(super) struct Refusal {
    kind: ProblemType,
    mechanism: Cow<'static, str>,
    detail: String,
    retry_after: Duration,
    governed: Governed,
}

/// Marks an answer that a guard gave: it has been logged here, if at all.
#[derive(Debug, Clone, Copy)]
pub struct Refused;

impl Refusal {
    pub fn rate_limited(mechanism: &'static str, policy: &str, limited: RateLimited) -> Self {
        Self {
            kind: ProblemType::RateLimited,
            mechanism: mechanism.into(),
            detail: used_up(limited.limit, limited.window),
            retry_after: limited.retry_after,
            governed: Governed::by(policy, &limited),
        }
    }

    /// By a quota of the whole cluster; `mechanism` names it.
    pub fn over_quota(
        mechanism: Arc<str>,
        limit: u32,
        window: Duration,
        retry_after: Duration,
        governed: Governed,
    ) -> Self {
        let mechanism = mechanism.to_string().into();
        Self { kind: ProblemType::RateLimited, mechanism, detail: used_up(limit, window), retry_after, governed }
    }

    /// By a composite rule, as a limiter or as a breaker would.
    pub fn by_rule(rejection: &Rejection) -> Self {
        let kind = if signals::breaks(rejection) { ProblemType::Overloaded } else { ProblemType::RateLimited };
        Self {
            kind,
            mechanism: signals::mechanism(rejection).into(),
            detail: format!("the rule {} holds for requests such as this one", rejection.rule),
            retry_after: rejection.retry_after,
            governed: Governed::default(),
        }
    }

    /// The request's time ran out in a guard.
    pub fn too_late() -> Self {
        Self {
            kind: ProblemType::DeadlineExceeded,
            mechanism: DEADLINE.into(),
            detail: "there was not enough time".to_owned(),
            retry_after: Duration::from_millis(Problem::DEFAULT_RETRY_AFTER_MS),
            governed: Governed::default(),
        }
    }

    pub fn overloaded(retry_after: Duration) -> Self {
        let detail = "as many requests are in flight as can be finished in time".to_owned();
        let mechanism = IN_FLIGHT.into();
        Self { kind: ProblemType::Overloaded, mechanism, detail, retry_after, governed: Governed::default() }
    }
}

fn used_up(limit: u32, window: Duration) -> String {
    format!("the limit of {limit} in {window:?} is used up")
}

/// The log's own limits, one a mechanism, and one for all that the operator names.
pub(super) struct Refusals([Mechanism; 10]);

struct Mechanism {
    name: &'static str,
    log: TokenBucket,
    unlogged: AtomicU64,
}

impl Refusals {
    pub fn new() -> Result<Self, Invalid> {
        Self::with_clock(&Clock::counter())
    }

    fn with_clock(clock: &Clock) -> Result<Self, Invalid> {
        let log = || TokenBucket::with_clock(LOGGED, clock.clone());
        let of = |name| Ok(Mechanism { name, log: log()?, unlogged: AtomicU64::new(0) });
        Ok(Self([
            of(IN_FLIGHT)?,
            of(route_limits::MECHANISM)?,
            of(key_limits::USER)?,
            of(key_limits::POLL)?,
            of(key_limits::TENANT)?,
            of(key_limits::CALLER)?,
            of(key_limits::WEBHOOK)?,
            of(quotas::FAMILY)?,
            of(signals::FAMILY)?,
            of(DEADLINE)?,
        ]))
    }

    pub fn answer(&self, refusal: Refusal, rule_version: i64) -> Error {
        let Refusal { kind, mechanism, detail, retry_after, governed } = refusal;
        metrics::counter!("stability_rate_limited_total", "mechanism" => mechanism.clone()).increment(1);
        // Rounded up: who comes back when told is let in.
        let retry_after_ms = u64::try_from(retry_after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.log(&mechanism, rule_version, retry_after_ms);
        let mut problem = Problem::new(kind, detail).with_mechanism(mechanism).with_retry_after_ms(retry_after_ms);
        problem.rule_version = Some(rule_version);
        let mut response = problem::respond(&problem);
        governed.write(response.headers_mut());
        response.extensions_mut().insert(Refused);
        InternalError::from_response(ApiProblem::from(problem), response).into()
    }

    /// What nobody has been refused by yet is shown at zero: of a series that begins with its first refusal, a rate would
    /// not see it.
    pub fn measure(&self) {
        for Mechanism { name, .. } in
            self.0.iter().filter(|known| ![quotas::FAMILY, signals::FAMILY].contains(&known.name))
        {
            metrics::counter!("stability_rate_limited_total", "mechanism" => *name).increment(0);
        }
    }

    fn log(&self, mechanism: &str, rule_version: i64, retry_after_ms: u64) {
        let family = mechanism.split('.').next().unwrap_or_default();
        let is_named = |known: &&Mechanism| known.name == mechanism || known.name == family;
        let Some(known) = self.0.iter().find(is_named) else { return };
        if known.log.check().is_err() {
            known.unlogged.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unlogged = known.unlogged.swap(0, Ordering::Relaxed);
        tracing::warn!(mechanism, rule_version, retry_after_ms, unlogged, "a request was refused");
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Mutex, PoisonError},
    };

    use super::*;

    /// What was logged, line by line.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn lines(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
            String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
        }
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_refusals_is_ten_lines_a_second_for_each_mechanism_and_loses_no_count() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _in_force = tracing::subscriber::set_default(subscriber);
        let refusals = Refusals::with_clock(&Clock::tokio()).unwrap();
        let flood = |mechanism| (0..1_000).for_each(|_| refusals.log(mechanism, 7, 100));
        flood(key_limits::USER);
        assert_eq!(log.lines().len(), 10);
        flood("quota.orders");
        assert_eq!(log.lines().len(), 10, "another mechanism has its own");
        tokio::time::advance(Duration::from_secs(1)).await;
        flood(key_limits::USER);
        let lines = log.lines();
        assert_eq!(lines.len(), 10);
        assert!(lines[0].contains("unlogged=990") && lines[0].contains("rule_version=7"), "{}", lines[0]);
    }
}
