//! One rule and the keys that it watches.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Call, Observation, RuleSnapshot, Trip,
    config::{BUCKET, CompositeConfig, Condition, Granularity, Join, LONGEST_WINDOW},
    window::Window,
};

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: Arc<str>,
    pub(super) config: CompositeConfig,
    cells: Mutex<Cells>,
    trips: AtomicU64,
    unjudged: AtomicU64,
}

#[derive(Debug, Default)]
struct Cells {
    by_hash: HashMap<u64, Cell>,
    /// When idle keys were last looked for, in buckets.
    swept: u32,
    /// No key is held after it, so that nobody looks through them for nothing.
    last_hold: Option<Instant>,
}

#[derive(Debug)]
struct Cell {
    key: [Box<str>; 3],
    window: Window,
    holds_until: Option<Instant>,
}

impl Rule {
    pub(super) fn new(name: &str, config: CompositeConfig) -> Self {
        let (trips, unjudged) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { name: name.into(), config, cells: Mutex::default(), trips, unjudged }
    }

    /// Whether `config` counts the same calls in the same windows and joins what it counts in the same way.
    pub(super) fn counts_as(&self, config: &CompositeConfig) -> bool {
        let counted = |config: &CompositeConfig| {
            let conditions: Vec<_> = config.conditions.iter().map(|c| (c.metric, c.window)).collect();
            (config.per, config.consumer.clone(), config.api.clone(), config.provider.clone(), config.join, conditions)
        };
        counted(&self.config) == counted(config)
    }

    /// The same rule with other thresholds. What was counted moves over to it.
    pub(super) fn successor(&self, config: CompositeConfig) -> Self {
        let cells = std::mem::take(&mut *self.cells.lock().unwrap_or_else(PoisonError::into_inner));
        Self {
            name: self.name.clone(),
            config,
            cells: Mutex::new(cells),
            trips: AtomicU64::new(self.trips.load(Relaxed)),
            unjudged: AtomicU64::new(self.unjudged.load(Relaxed)),
        }
    }

    pub(super) fn concerns(&self, call: &Call<'_>) -> bool {
        let chosen = |name: &Option<String>, actual: &str| name.as_deref().is_none_or(|name| name == actual);
        let config = &self.config;
        chosen(&config.consumer, call.consumer)
            && chosen(&config.api, call.api)
            && chosen(&config.provider, call.provider)
    }

    /// The parts that the rule judges by; the others are left empty.
    pub(super) fn key<'a>(&self, call: &Call<'a>) -> [&'a str; 3] {
        match self.config.per {
            Granularity::ConsumerApiProvider => [call.consumer, call.api, call.provider],
            Granularity::ApiProvider => ["", call.api, call.provider],
            Granularity::Provider => ["", "", call.provider],
        }
    }

    pub(super) fn holds(&self, hash: u64, key: [&str; 3], now: Instant) -> Option<Duration> {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = cells.by_hash.get(&hash).filter(|cell| cell.is(key))?;
        cell.holds_until.map(|until| until.saturating_duration_since(now)).filter(|remaining| !remaining.is_zero())
    }

    /// The longest that it still holds for this consumer and API, at any provider.
    pub(super) fn holds_anywhere(&self, consumer: &str, api: &str, now: Instant) -> Option<Duration> {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.last_hold.filter(|last| now < *last)?;
        // What the rule does not judge by is empty in its keys.
        let concerns = |part: &str, actual: &str| part.is_empty() || part == actual;
        let held =
            cells.by_hash.values().filter(|cell| concerns(&cell.key[0], consumer) && concerns(&cell.key[1], api));
        held.filter_map(|cell| cell.holds_until?.checked_duration_since(now)).max().filter(|left| !left.is_zero())
    }

    pub(super) fn record(
        &self,
        hash: u64,
        key: [&str; 3],
        observation: &Observation,
        tick: u32,
        now: Instant,
    ) -> Option<Trip> {
        let conditions = &self.config.conditions;
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let max = self.config.max_keys.get() as usize;
        if !cells.by_hash.contains_key(&hash) && !cells.make_room(max, tick, now) {
            self.unjudged.fetch_add(1, Relaxed);
            return None;
        }
        let cell = cells.by_hash.entry(hash).or_insert_with(|| Cell {
            key: key.map(Into::into),
            window: Window::new(tick, conditions),
            holds_until: None,
        });
        if !cell.is(key) {
            // Two keys with one hash: the first is judged.
            self.unjudged.fetch_add(1, Relaxed);
            return None;
        }
        match cell.holds_until {
            // Calls from before the trip that come back during it: they are part of the trouble already judged.
            Some(until) if now < until => return None,
            Some(_) => {
                cell.holds_until = None;
                cell.window = Window::new(tick, conditions);
            }
            None => {}
        }
        cell.window.add(tick, observation, conditions);
        let mut met = conditions.iter().enumerate().map(|(i, c)| cell.window.measure(i, c) >= c.at_least);
        let holds = match self.config.join {
            Join::All => met.all(|met| met),
            Join::Any => met.any(|met| met),
        };
        if !holds {
            return None;
        }
        let until = now + self.config.recover_after;
        cell.holds_until = Some(until);
        self.trips.fetch_add(1, Relaxed);
        let (key, reason) = (cell.name(), cell.figures(conditions));
        cells.last_hold = cells.last_hold.max(Some(until));
        Some(Trip { rule: self.name.to_string(), key, action: self.config.action.clone(), reason })
    }

    pub(super) fn snapshot(&self, now: Instant) -> RuleSnapshot {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let mut holds_for: Vec<_> = cells
            .by_hash
            .values()
            .filter_map(|cell| Some((cell, cell.holds_until?.checked_duration_since(now)?)))
            .map(|(cell, remaining)| (cell.name(), u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX)))
            .collect();
        holds_for.sort();
        RuleSnapshot {
            rule: self.name.to_string(),
            action: self.config.action.clone(),
            keys: cells.by_hash.len(),
            holds_for,
            trips_total: self.trips.load(Relaxed),
            unjudged_total: self.unjudged.load(Relaxed),
        }
    }
}

impl Cells {
    /// Whether one more key fits, once a bucket after throwing out those that say nothing any more. Looking at every
    /// new key would cost a walk through the map for each name that somebody makes up.
    fn make_room(&mut self, max: usize, tick: u32, now: Instant) -> bool {
        if self.by_hash.len() >= max && tick > self.swept {
            self.swept = tick;
            let longest = (LONGEST_WINDOW.as_secs() / BUCKET.as_secs()) as u32;
            self.by_hash.retain(|_, cell| {
                cell.holds_until.is_some_and(|until| now < until) || cell.window.tick() + longest > tick
            });
            self.by_hash.shrink_to_fit();
        }
        self.by_hash.len() < max
    }
}

impl Cell {
    fn is(&self, key: [&str; 3]) -> bool {
        self.key.iter().zip(key).all(|(mine, theirs)| **mine == *theirs)
    }

    fn name(&self) -> String {
        let parts: Vec<&str> = self.key.iter().map(|part| &**part).filter(|part| !part.is_empty()).collect();
        parts.join(" × ")
    }

    fn figures(&self, conditions: &[Condition]) -> String {
        let mut text = String::new();
        for (index, condition) in conditions.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let measured = self.window.measure(index, condition);
            // Writing into a String cannot fail.
            let _ = write!(
                text,
                "{comma}{:?} {measured:.2} of {} in {:?}",
                condition.metric, condition.at_least, condition.window
            );
        }
        text
    }
}
