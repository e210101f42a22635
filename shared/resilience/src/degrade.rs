//! # Degrade: a lesser answer, and the honesty to say so
//!
//! **Problem.** A part that is nice to have fails or is slow, and takes the whole answer with it; or an operator wants
//! it off *now*, without a release; or it is left out in silence, and nobody knows why the pages look poor.
//!
//! **Rule.** Each such feature has levels, from normal down to off ("live", "cache", "default", "off"). A [`Switch`]
//! says at which level to begin; a [`Chain`] tries that one and then each below it until one answers. What comes back
//! says which level served, and anything but the first counts as degraded and is named in the answer. An operator's
//! switch stays; an automatic one (a composite rule) holds for a time and lapses by itself. Of the two, the lower
//! level counts.
//!
//! **Not for** the core: what must not be guessed (a charge, a stock count that money depends on) has no lesser answer,
//! and refuses.
//!
//! **When you copy this**, name your features and levels in one table. Keep everything below the first level fast and
//! local: a fallback that can be slow is a second failure.
//!
//! **Proved by** the drills `recommendation-down` and `coupon-half-failing`.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

/// A feature and its levels, from normal to the last resort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    pub levels: &'static [&'static str],
}

/// Where a feature begins.
#[derive(Debug)]
pub struct Switch {
    feature: Feature,
    born: Instant,
    /// The operator's word: an index into the levels.
    set: AtomicUsize,
    /// The automatic one, and until when: milliseconds since `born`.
    eased: AtomicUsize,
    eased_until: AtomicU64,
    hits: AtomicU64,
}

/// The feature has no such level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{feature} has no level `{level}`; it has {}", .levels.join(", "))]
pub struct UnknownLevel {
    pub feature: &'static str,
    pub level: String,
    pub levels: &'static [&'static str],
}

/// For metrics and people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchSnapshot {
    pub feature: &'static str,
    /// The level that counts now.
    pub level: &'static str,
    /// The level that the operator set.
    pub set: &'static str,
    /// How long an automatic easing still holds.
    pub eased_for_ms: u64,
    /// Answers below the first level, since the start.
    pub degraded_total: u64,
}

/// A value, and the level that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served<T> {
    pub value: T,
    pub level: &'static str,
    /// The feature's name where this is less than normal: what goes into the answer's `degraded`.
    pub degraded: Option<&'static str>,
}

/// No level had an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{feature}: no level had an answer")]
pub struct Exhausted<E> {
    pub feature: &'static str,
    /// Why, for each level that was tried.
    pub tried: Vec<(&'static str, E)>,
}

/// One pass over the levels of a feature.
#[derive(Debug)]
#[must_use = "a chain that is not finished serves nothing"]
pub struct Chain<'s, T, E> {
    switch: &'s Switch,
    begin: usize,
    served: Option<(T, usize)>,
    tried: Vec<(&'static str, E)>,
}

impl Switch {
    /// At the first level.
    ///
    /// # Panics
    /// When the feature has no levels, which is a mistake in the table of features.
    #[must_use]
    pub fn new(feature: Feature) -> Self {
        assert!(!feature.levels.is_empty(), "{} has no levels", feature.name);
        Self {
            feature,
            born: Instant::now(),
            set: AtomicUsize::new(0),
            eased: AtomicUsize::new(0),
            eased_until: AtomicU64::new(0),
            hits: AtomicU64::new(0),
        }
    }

    #[must_use]
    pub const fn feature(&self) -> &Feature {
        &self.feature
    }

    /// The operator's word, until the next one.
    pub fn set(&self, level: &str) -> Result<(), UnknownLevel> {
        self.set.store(self.index(level)?, Relaxed);
        Ok(())
    }

    /// At `level` or below for `time`, and then as before. Easing again before that begins anew.
    pub fn ease(&self, level: &str, time: Duration) -> Result<(), UnknownLevel> {
        let index = self.index(level)?;
        let until = self.now_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.eased.store(index, Relaxed);
        self.eased_until.store(until, Relaxed);
        Ok(())
    }

    /// The first level below normal: where an easing begins that names no level.
    #[must_use]
    pub fn first_degraded(&self) -> &'static str {
        self.feature.levels[1.min(self.feature.levels.len() - 1)]
    }

    /// The level at which to begin now.
    #[must_use]
    pub fn level(&self) -> &'static str {
        self.feature.levels[self.begin_index()]
    }

    /// Whether `level` may be tried: it is not above the one to begin at. False for a level that does not exist.
    #[must_use]
    pub fn allows(&self, level: &str) -> bool {
        self.index(level).is_ok_and(|index| index >= self.begin_index())
    }

    /// Tries the levels in their order, beginning at the one that counts now.
    pub fn begin<T, E>(&self) -> Chain<'_, T, E> {
        Chain { switch: self, begin: self.begin_index(), served: None, tried: Vec::new() }
    }

    /// The same for one call that is to begin at `level`, or at the switch's own where that is lower.
    pub fn begin_at<T, E>(&self, level: &str) -> Chain<'_, T, E> {
        let begin = self.index(level).unwrap_or(0).max(self.begin_index());
        Chain { switch: self, begin, served: None, tried: Vec::new() }
    }

    /// For features whose levels are no chain but a way of working: whatever is done at `level` is counted, and named
    /// if it is less than normal.
    pub fn serve<T>(&self, value: T, level: &'static str) -> Served<T> {
        // A level that is not in the table cannot be called normal.
        let index = self.index(level).unwrap_or(usize::MAX);
        if index > 0 {
            self.hits.fetch_add(1, Relaxed);
        }
        Served { value, level, degraded: (index > 0).then_some(self.feature.name) }
    }

    #[must_use]
    pub fn snapshot(&self) -> SwitchSnapshot {
        SwitchSnapshot {
            feature: self.feature.name,
            level: self.level(),
            set: self.feature.levels[self.set.load(Relaxed)],
            eased_for_ms: self.eased_until.load(Relaxed).saturating_sub(self.now_ms()),
            degraded_total: self.hits.load(Relaxed),
        }
    }

    fn begin_index(&self) -> usize {
        let set = self.set.load(Relaxed);
        // No clock is read while nothing is eased.
        let until = self.eased_until.load(Relaxed);
        if until > 0 && self.now_ms() < until { set.max(self.eased.load(Relaxed)) } else { set }
    }

    fn index(&self, level: &str) -> Result<usize, UnknownLevel> {
        self.feature.levels.iter().position(|name| *name == level).ok_or_else(|| UnknownLevel {
            feature: self.feature.name,
            level: level.to_owned(),
            levels: self.feature.levels,
        })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl<T, E> Chain<'_, T, E> {
    /// Tries `level`, unless an earlier one has answered or the switch stands below it. Levels are tried in the order
    /// of these calls, which should be that of the feature.
    pub async fn or<Fut>(mut self, level: &'static str, attempt: impl FnOnce() -> Fut) -> Self
    where
        Fut: Future<Output = Result<T, E>>,
    {
        if self.served.is_some() {
            return self;
        }
        let index = self.switch.index(level);
        debug_assert!(index.is_ok(), "{} has no level {level}", self.switch.feature.name);
        let index = index.unwrap_or(self.switch.feature.levels.len() - 1);
        if index >= self.begin {
            match attempt().await {
                Ok(value) => self.served = Some((value, index)),
                Err(reason) => self.tried.push((level, reason)),
            }
        }
        self
    }

    /// What was served, and from where; or why nothing was.
    pub fn finish(self) -> Result<Served<T>, Exhausted<E>> {
        match self.served {
            Some((value, index)) => Ok(self.switch.serve(value, self.switch.feature.levels[index])),
            None => Err(Exhausted { feature: self.switch.feature.name, tried: self.tried }),
        }
    }

    /// The reasons of the levels that failed so far, for the log.
    #[must_use]
    pub fn tried(&self) -> &[(&'static str, E)] {
        &self.tried
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::advance;

    use super::*;

    const RECOMMENDATION: Feature = Feature { name: "recommendation", levels: &["live", "cache", "default", "off"] };
    const SECOND: Duration = Duration::from_secs(1);

    async fn ask(switch: &Switch, live: Result<u8, &'static str>, cache: Result<u8, &'static str>) -> Served<u8> {
        let chain = switch.begin().or("live", || async { live }).await.or("cache", || async { cache }).await;
        chain.or("default", || async { Ok(9) }).await.or("off", || async { Ok(0) }).await.finish().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_normal_answer_is_not_called_degraded() {
        let switch = Switch::new(RECOMMENDATION);
        assert_eq!(ask(&switch, Ok(1), Ok(2)).await, Served { value: 1, level: "live", degraded: None });
        assert_eq!(switch.snapshot().degraded_total, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn each_level_stands_in_for_the_one_above_and_says_so() {
        let switch = Switch::new(RECOMMENDATION);
        let served = ask(&switch, Err("down"), Ok(2)).await;
        assert_eq!(served, Served { value: 2, level: "cache", degraded: Some("recommendation") });
        assert_eq!(ask(&switch, Err("down"), Err("empty")).await.level, "default");
        assert_eq!(switch.snapshot().degraded_total, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_leaves_the_levels_above_it_alone() {
        let switch = Switch::new(RECOMMENDATION);
        switch.set("default").unwrap();
        let chain = switch.begin::<u8, &str>().or("live", || async { panic!("live was called") }).await;
        let chain = chain.or("cache", || async { panic!("the cache was called") }).await;
        let served = chain.or("default", || async { Ok(9) }).await.finish().unwrap();
        assert_eq!((served.level, served.degraded), ("default", Some("recommendation")));
        assert!(!switch.allows("cache") && switch.allows("default") && switch.allows("off"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_may_begin_further_down_than_the_switch_and_never_above_it() {
        let switch = Switch::new(RECOMMENDATION);
        let first = async |level| {
            let chain = switch.begin_at::<u8, ()>(level).or("live", || async { Ok(1) }).await;
            chain.or("cache", || async { Ok(2) }).await.or("default", || async { Ok(3) }).await.finish().unwrap().value
        };
        assert_eq!((first("live").await, first("cache").await), (1, 2));
        switch.set("default").unwrap();
        assert_eq!(first("cache").await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_level_is_not_called_once_one_has_answered() {
        let switch = Switch::new(RECOMMENDATION);
        let chain = switch.begin::<u8, &str>().or("live", || async { Ok(1) }).await;
        let served = chain.or("cache", || async { panic!("the cache was called") }).await.finish().unwrap();
        assert_eq!(served.value, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn when_nothing_answers_every_reason_is_told() {
        let switch = Switch::new(RECOMMENDATION);
        let chain = switch.begin::<u8, &str>().or("live", || async { Err("down") }).await;
        let error = chain.or("cache", || async { Err("empty") }).await.finish().unwrap_err();
        assert_eq!(error.tried, [("live", "down"), ("cache", "empty")]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_easing_lapses_by_itself_and_never_lifts_the_operators_word() {
        let switch = Switch::new(RECOMMENDATION);
        switch.ease(switch.first_degraded(), 30 * SECOND).unwrap();
        assert_eq!(switch.level(), "cache");
        assert_eq!(switch.snapshot().eased_for_ms, 30_000);
        switch.set("off").unwrap();
        assert_eq!(switch.level(), "off");
        switch.set("live").unwrap();
        advance(29 * SECOND).await;
        assert_eq!(switch.level(), "cache");
        advance(SECOND).await;
        assert_eq!((switch.level(), switch.snapshot().eased_for_ms), ("live", 0));
    }

    #[test]
    fn an_unknown_level_is_refused_with_the_known_ones() {
        let switch = Switch::new(RECOMMENDATION);
        let refused = switch.set("lvie").unwrap_err().to_string();
        assert_eq!(refused, "recommendation has no level `lvie`; it has live, cache, default, off");
        assert_eq!(switch.level(), "live");
    }

    proptest! {
        #[test]
        fn what_is_served_is_the_first_level_at_or_below_the_switch_that_answers(
            set in 0_usize..4, eased in 0_usize..4, answers in proptest::array::uniform4(any::<bool>()),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let switch = Switch::new(RECOMMENDATION);
            switch.set(RECOMMENDATION.levels[set]).unwrap();
            switch.ease(RECOMMENDATION.levels[eased], 1_000 * SECOND).unwrap();
            let outcome = runtime.block_on(async {
                let mut chain = switch.begin::<usize, usize>();
                for (index, level) in RECOMMENDATION.levels.iter().enumerate() {
                    let answer = if answers[index] { Ok(index) } else { Err(index) };
                    chain = chain.or(level, || async move { answer }).await;
                }
                chain.finish()
            });
            let expected = (set.max(eased)..4).find(|index| answers[*index]);
            prop_assert_eq!(outcome.as_ref().ok().map(|served| served.value), expected);
            if let Ok(served) = outcome {
                prop_assert_eq!(served.degraded.is_some(), served.value > 0);
            }
        }
    }
}
