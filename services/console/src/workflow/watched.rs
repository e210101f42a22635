//! How each instance was seen, for as long as rates reach back; and what else is known.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::domain::{
    live::{
        Beside, Snapshot,
        look::{Look, View},
    },
    target::Target,
};

/// What rates are told over: long enough to be calm, short enough to see what happens.
const WINDOW: Duration = Duration::from_millis(5_500);
/// Looks of one instance: those of the window, and some to spare.
const MOST: usize = 8;

/// An instance, and how it was seen.
pub struct Instance {
    pub target: Target,
    looks: Mutex<VecDeque<Arc<Look>>>,
}

impl Instance {
    pub fn keep(&self, look: Look) {
        let mut looks = self.looks();
        if looks.len() == MOST {
            looks.pop_front();
        }
        looks.push_back(Arc::new(look));
    }

    /// The last look, and the first one of the window before it that was answered.
    fn ends(&self) -> (Option<Arc<Look>>, Option<Arc<Look>>) {
        let looks = self.looks();
        let Some(later) = looks.back().cloned() else { return (None, None) };
        let is_within = |look: &&Arc<Look>| later.at.saturating_sub(look.at) <= WINDOW && look.at < later.at;
        let earlier = looks.iter().filter(is_within).find(|look| look.is_answered()).cloned();
        (earlier, Some(later))
    }

    fn looks(&self) -> MutexGuard<'_, VecDeque<Arc<Look>>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that is watched.
pub struct Watched {
    pub instances: Vec<Arc<Instance>>,
    beside: Mutex<Beside>,
}

impl Watched {
    #[must_use]
    pub fn new(targets: Vec<Target>) -> Self {
        let unseen = |target| Arc::new(Instance { target, looks: Mutex::default() });
        Self { instances: targets.into_iter().map(unseen).collect(), beside: Mutex::default() }
    }

    /// The faults in force, by link and name; `None` while no links answer.
    pub fn note_faults(&self, faults: Option<Vec<(String, String)>>) {
        self.beside().faults = faults;
    }

    pub fn note_dead_letters(&self, open: Option<u64>) {
        self.beside().dead_letters = open;
    }

    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let seen: Vec<_> = self.instances.iter().map(|instance| (&instance.target, instance.ends())).collect();
        let views: Vec<View<'_>> = seen
            .iter()
            .map(|(target, (earlier, later))| View {
                service: &target.service,
                instance: &target.instance,
                earlier: earlier.as_deref(),
                later: later.as_deref(),
            })
            .collect();
        let beside = self.beside().clone();
        Snapshot::of(chrono::Utc::now(), &views, &beside)
    }

    /// How many messages the instances have given up, since they began.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        let last = self.instances.iter().filter_map(|instance| instance.looks().back().cloned());
        last.filter_map(|look| look.samples.sum("dead_letters_total", |_| true))
            .map(crate::domain::live::look::whole)
            .sum()
    }

    fn beside(&self) -> MutexGuard<'_, Beside> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
