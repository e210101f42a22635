//! # Composite rules: several signals together, for whoever they are about
//!
//! **Problem.** One threshold says little: ten failures are nothing among ten thousand calls, and a ratio of one half
//! is nothing among two. And trouble is often one consumer's, or one API's of one provider, while a limiter or a
//! breaker knows only all of them.
//!
//! **Rule.** An operator joins conditions (calls, failures, failure ratio, mean and p99 latency, bytes, each over a
//! window of its own) by all or any, and says for whom they are judged: consumer × API × provider, API × provider, or
//! provider. While they hold for a key, that key is refused (`reject`), not called (`break`), or served less
//! (`degrade:<feature>`). After `recover_after` counting begins anew; what was known of the trouble is forgotten, so
//! that it does not trip the rule again by itself.
//!
//! **Not for** the first line of defence: a limiter answers within a call, and a breaker probes; this one judges ten
//! seconds at a time and lets everything through after its pause.
//!
//! **When you copy this**, take the folder. Keys come from outside, so they are bounded: past `max_keys`, idle ones make
//! room every ten seconds, and what finds none is not judged but counted.
//!
//! **Proved by** the drill `inventory-plus-300ms`.

mod config;
mod rule;
mod window;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::time::Instant;

pub use config::{Action, BUCKET, CompositeConfig, Condition, Granularity, Join, LONGEST_WINDOW, Metric};
use rule::Rule;

/// Who calls what of whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    pub consumer: &'a str,
    pub api: &'a str,
    pub provider: &'a str,
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    pub failed: bool,
    pub latency: Duration,
    pub bytes: u64,
}

/// A rule that holds for a call, and refuses it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("composite rule {rule}: {action}")]
pub struct Rejection {
    pub rule: Arc<str>,
    pub action: Action,
    pub retry_after: Duration,
}

/// A rule that holds for a call which may go on with less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eased {
    pub rule: Arc<str>,
    pub feature: String,
    pub remaining: Duration,
}

/// A rule that has just begun to hold: to be logged and counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trip {
    pub rule: String,
    pub key: String,
    #[serde(serialize_with = "as_text")]
    pub action: Action,
    /// Each condition with the figure that was measured.
    pub reason: String,
}

/// For metrics and people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleSnapshot {
    pub rule: String,
    #[serde(serialize_with = "as_text")]
    pub action: Action,
    pub keys: usize,
    /// Keys for which the rule holds now, and for how many milliseconds more.
    pub holds_for: Vec<(String, u64)>,
    pub trips_total: u64,
    /// Calls that were not judged, because the keys were too many.
    pub unjudged_total: u64,
}

/// The composite rules in force.
#[derive(Debug)]
pub struct Composite {
    born: Instant,
    hasher: RandomState,
    rules: ArcSwap<Vec<Arc<Rule>>>,
}

impl Composite {
    /// By name. The configurations have to be valid.
    #[must_use]
    pub fn new(rules: BTreeMap<String, CompositeConfig>) -> Self {
        let new = Self { born: Instant::now(), hasher: RandomState::new(), rules: ArcSwap::default() };
        new.reconfigure(rules);
        new
    }

    /// New rules. One that counts the same as before keeps what it has counted, and goes on holding: other thresholds,
    /// another action or another pause are no reason to forget.
    pub fn reconfigure(&self, rules: BTreeMap<String, CompositeConfig>) {
        let before = self.rules.load();
        let next = |(name, config): (String, CompositeConfig)| match before.iter().find(|rule| *rule.name == *name) {
            Some(rule) if rule.config == config => rule.clone(),
            Some(rule) if rule.counts_as(&config) => Arc::new(rule.successor(config)),
            _ => Arc::new(Rule::new(&name, config)),
        };
        let after = rules.into_iter().map(next).collect();
        self.rules.store(Arc::new(after));
    }

    /// The features that are eased for what this consumer wants of this API, at whatever provider the trouble is.
    #[must_use]
    pub fn eased(&self, consumer: &str, api: &str) -> Vec<Eased> {
        let rules = self.rules.load();
        let mut eased = Vec::new();
        if rules.is_empty() {
            return eased;
        }
        let now = Instant::now();
        for rule in rules.iter() {
            if let Action::Degrade(feature) = &rule.config.action
                && let Some(remaining) = rule.holds_anywhere(consumer, api, now)
            {
                eased.push(Eased { rule: rule.name.clone(), feature: feature.clone(), remaining });
            }
        }
        eased
    }

    /// Whether the call may be made, and with which features eased.
    pub fn check(&self, call: &Call<'_>) -> Result<Vec<Eased>, Rejection> {
        let rules = self.rules.load();
        let mut eased = Vec::new();
        if rules.is_empty() {
            return Ok(eased);
        }
        let now = Instant::now();
        for rule in rules.iter().filter(|rule| rule.concerns(call)) {
            let key = rule.key(call);
            let Some(remaining) = rule.holds(self.hasher.hash_one(key), key, now) else { continue };
            match &rule.config.action {
                Action::Degrade(feature) => {
                    eased.push(Eased { rule: rule.name.clone(), feature: feature.clone(), remaining });
                }
                action => {
                    let action = action.clone();
                    return Err(Rejection { rule: rule.name.clone(), action, retry_after: remaining });
                }
            }
        }
        Ok(eased)
    }

    /// Counts a call that was made, and says which rules it was the last straw for.
    pub fn record(&self, call: &Call<'_>, observation: &Observation) -> Vec<Trip> {
        let rules = self.rules.load();
        let mut trips = Vec::new();
        if rules.is_empty() {
            return trips;
        }
        let now = Instant::now();
        // Ten seconds fill 32 bits in 1 300 years.
        let tick = (now.saturating_duration_since(self.born).as_secs() / BUCKET.as_secs()) as u32;
        for rule in rules.iter().filter(|rule| rule.concerns(call)) {
            let key = rule.key(call);
            trips.extend(rule.record(self.hasher.hash_one(key), key, observation, tick, now));
        }
        trips
    }

    #[must_use]
    pub fn snapshot(&self) -> Vec<RuleSnapshot> {
        let now = Instant::now();
        self.rules.load().iter().map(|rule| rule.snapshot(now)).collect()
    }
}

fn as_text<S: serde::Serializer>(action: &Action, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(action)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const ADA: Call<'_> = Call { consumer: "ada", api: "POST /v1/orders", provider: "payment" };
    const BOB: Call<'_> = Call { consumer: "bob", ..ADA };

    fn at_least(metric: Metric, at_least: f64) -> Condition {
        Condition { metric, at_least, window: 60 * SECOND }
    }

    /// Half of at least ten calls in a minute.
    fn half_failing(per: Granularity, action: Action) -> CompositeConfig {
        CompositeConfig {
            per,
            consumer: None,
            api: None,
            provider: None,
            join: Join::All,
            conditions: vec![at_least(Metric::Calls, 10.0), at_least(Metric::FailureRatio, 0.5)],
            action,
            recover_after: 30 * SECOND,
            max_keys: NonZeroU32::new(100).unwrap(),
        }
    }

    fn composite(config: CompositeConfig) -> Composite {
        assert_eq!(config.validate(), Ok(()));
        Composite::new(BTreeMap::from([("rule".to_owned(), config)]))
    }

    fn went(composite: &Composite, call: &Call<'_>, failed: bool, times: usize) -> Vec<Trip> {
        let observation = Observation { failed, latency: Duration::from_millis(20), bytes: 100 };
        (0..times).flat_map(|_| composite.record(call, &observation)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn all_conditions_have_to_hold() {
        let composite = composite(half_failing(Granularity::Provider, Action::Break));
        assert_eq!(went(&composite, &ADA, true, 9), []);
        assert_eq!(composite.check(&ADA), Ok(vec![]));
        let trips = went(&composite, &ADA, true, 1);
        assert_eq!(trips.len(), 1);
        assert_eq!((trips[0].rule.as_str(), trips[0].key.as_str()), ("rule", "payment"));
        assert!(trips[0].reason.contains("10.00") && trips[0].reason.contains("1.00"), "{}", trips[0].reason);
        let refused = composite.check(&ADA).unwrap_err();
        assert_eq!((refused.action, refused.retry_after), (Action::Break, 30 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_healthy_share_holds_nothing_back() {
        let composite = composite(half_failing(Granularity::Provider, Action::Break));
        went(&composite, &ADA, false, 60);
        assert_eq!(went(&composite, &ADA, true, 59), []);
        assert_eq!(went(&composite, &ADA, true, 1).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn any_condition_is_enough_where_the_rule_says_so() {
        let conditions = vec![at_least(Metric::Failures, 5.0), at_least(Metric::Bytes, 2_000.0)];
        let rule = CompositeConfig {
            join: Join::Any,
            conditions,
            ..half_failing(Granularity::ConsumerApiProvider, Action::Reject)
        };
        let composite = composite(rule);
        assert_eq!(went(&composite, &ADA, false, 19), []);
        assert_eq!(went(&composite, &ADA, false, 1).len(), 1);
        assert_eq!(went(&composite, &BOB, true, 5).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn each_granularity_judges_its_own_keys() {
        let other_api = Call { api: "GET /v1/orders/{id}", ..ADA };
        let other_provider = Call { provider: "coupon", ..ADA };
        for (per, spares) in [
            (Granularity::ConsumerApiProvider, vec![BOB, other_api, other_provider]),
            (Granularity::ApiProvider, vec![other_api, other_provider]),
            (Granularity::Provider, vec![other_provider]),
        ] {
            let composite = composite(half_failing(per, Action::Reject));
            went(&composite, &ADA, true, 10);
            for call in [ADA, BOB, other_api, other_provider] {
                assert_eq!(composite.check(&call).is_ok(), spares.contains(&call), "{per:?} {call:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_concerns_only_the_calls_that_it_chooses() {
        let per = Granularity::ApiProvider;
        let chosen = CompositeConfig { provider: Some("coupon".into()), ..half_failing(per, Action::Reject) };
        let composite = composite(chosen);
        assert_eq!(went(&composite, &ADA, true, 50), []);
        assert_eq!(composite.snapshot()[0].keys, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_degrading_rule_names_the_feature_and_lets_the_call_go_on() {
        let composite = composite(half_failing(Granularity::Provider, Action::Degrade("coupon".into())));
        went(&composite, &ADA, true, 10);
        advance(10 * SECOND).await;
        let eased = composite.check(&ADA).unwrap();
        assert_eq!((eased[0].feature.as_str(), eased[0].remaining), ("coupon", 20 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_pause_counting_begins_anew() {
        let composite = composite(half_failing(Granularity::Provider, Action::Reject));
        went(&composite, &ADA, true, 10);
        // What comes back late is part of the trouble already judged.
        assert_eq!(went(&composite, &ADA, true, 50), []);
        advance(29 * SECOND).await;
        assert!(composite.check(&ADA).is_err());
        advance(SECOND).await;
        assert!(composite.check(&ADA).is_ok());
        // The window still reaches back to the failures; they do not count a second time.
        assert_eq!(went(&composite, &ADA, true, 9), []);
        assert_eq!(went(&composite, &ADA, true, 1).len(), 1);
        assert_eq!(composite.snapshot()[0].trips_total, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_lies_before_the_window_is_forgotten() {
        let composite = composite(half_failing(Granularity::Provider, Action::Reject));
        went(&composite, &ADA, true, 9);
        advance(60 * SECOND).await;
        assert_eq!(went(&composite, &ADA, true, 9), []);
    }

    #[tokio::test(start_paused = true)]
    async fn slowness_trips_as_failure_does() {
        for metric in [Metric::P99LatencyMs, Metric::MeanLatencyMs] {
            let conditions = vec![at_least(Metric::Calls, 5.0), at_least(metric, 500.0)];
            let composite =
                composite(CompositeConfig { conditions, ..half_failing(Granularity::Provider, Action::Break) });
            let slow = Observation { failed: false, latency: Duration::from_millis(600), bytes: 0 };
            let trips: Vec<_> = (0..5).flat_map(|_| composite.record(&ADA, &slow)).collect();
            assert_eq!(trips.len(), 1, "{metric:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn made_up_names_leave_the_memory_bounded_and_known_ones_judged() {
        let composite = composite(half_failing(Granularity::ConsumerApiProvider, Action::Reject));
        went(&composite, &ADA, true, 1);
        for n in 0..10_000 {
            went(&composite, &Call { consumer: &n.to_string(), ..ADA }, true, 1);
        }
        let snapshot = &composite.snapshot()[0];
        assert_eq!((snapshot.keys, snapshot.unjudged_total), (100, 9_901));
        assert_eq!(went(&composite, &ADA, true, 9).len(), 1);
        // Idle ones make room.
        advance(LONGEST_WINDOW + BUCKET).await;
        went(&composite, &BOB, true, 1);
        assert_eq!(composite.snapshot()[0].keys, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_that_did_not_change_keeps_what_it_has_counted() {
        let rule = half_failing(Granularity::Provider, Action::Reject);
        let composite = composite(rule.clone());
        went(&composite, &ADA, true, 10);
        let other = half_failing(Granularity::ApiProvider, Action::Reject);
        composite.reconfigure(BTreeMap::from([("other".into(), other), ("rule".into(), rule.clone())]));
        assert!(composite.check(&ADA).is_err());
        composite.reconfigure(BTreeMap::from([("rule".into(), CompositeConfig { join: Join::Any, ..rule })]));
        assert!(composite.check(&ADA).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn other_thresholds_and_another_action_keep_what_was_counted_and_another_window_does_not() {
        let rule = half_failing(Granularity::Provider, Action::Break);
        let composite = composite(rule.clone());
        went(&composite, &ADA, true, 9);
        let with = |change: &dyn Fn(&mut CompositeConfig)| {
            let mut changed = rule.clone();
            change(&mut changed);
            composite.reconfigure(BTreeMap::from([("rule".to_owned(), changed)]));
        };
        with(&|rule| {
            rule.conditions[0].at_least = 12.0;
            rule.action = Action::Reject;
        });
        assert_eq!(went(&composite, &ADA, true, 2), []);
        assert_eq!(went(&composite, &ADA, true, 1).len(), 1, "nine before, three after");
        with(&|rule| rule.recover_after = 60 * SECOND);
        assert!(composite.check(&ADA).is_err(), "it goes on holding");
        with(&|rule| rule.conditions[0].window = 30 * SECOND);
        assert_eq!(composite.check(&ADA), Ok(vec![]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_feature_is_eased_for_whom_the_rule_holds_wherever_the_trouble_is() {
        let degrade = Action::Degrade("coupon".to_owned());
        let one_consumer = composite(half_failing(Granularity::ConsumerApiProvider, degrade.clone()));
        assert_eq!(one_consumer.eased("ada", ADA.api), []);
        went(&one_consumer, &ADA, true, 10);
        assert_eq!(one_consumer.eased("ada", ADA.api)[0].feature, "coupon");
        assert_eq!((one_consumer.eased("bob", ADA.api), one_consumer.eased("ada", "GET /")), (vec![], vec![]));
        advance(30 * SECOND).await;
        assert_eq!(one_consumer.eased("ada", ADA.api), []);

        let everybody = composite(half_failing(Granularity::Provider, degrade));
        went(&everybody, &ADA, true, 10);
        assert_eq!(everybody.eased("bob", "GET /").len(), 1);
    }
}
