//! The rules in force: one pointer, swapped as a whole.
//!
//! A request sees one rule set from its begin to its end, whatever arrives meanwhile, and reading costs a few
//! nanoseconds. Limiters and breakers are not made anew when rules change, since they would forget what they have
//! learnt: they subscribe, and reconfigure themselves.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::{Origin, Rules};

/// A rule set and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    pub rules: Arc<Rules>,
    pub origin: Origin,
}

/// One a process; clones share it.
#[derive(Debug, Clone)]
pub struct RulesHandle {
    current: Arc<ArcSwap<InForce>>,
    changes: watch::Sender<Arc<InForce>>,
}

impl RulesHandle {
    #[must_use]
    pub fn new(rules: Rules, origin: Origin) -> Self {
        let first = Arc::new(InForce { rules: Arc::new(rules), origin });
        Self { current: Arc::new(ArcSwap::new(first.clone())), changes: watch::Sender::new(first) }
    }

    /// The rules as they are now.
    #[must_use]
    pub fn current(&self) -> Arc<Rules> {
        self.current.load().rules.clone()
    }

    #[must_use]
    pub fn in_force(&self) -> Arc<InForce> {
        self.current.load_full()
    }

    /// From now on `rules` hold. They have to be valid.
    pub fn apply(&self, rules: Rules, origin: Origin) {
        let next = Arc::new(InForce { rules: Arc::new(rules), origin });
        // Under the channel's lock, so that of two who apply at once the same one is last for readers and listeners.
        self.changes.send_modify(|announced| {
            self.current.store(next.clone());
            *announced = next;
        });
    }

    /// Told of every change from now on; of several in quick succession, the last.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<InForce>> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versioned(version: i64) -> Rules {
        Rules { version, ..Rules::default() }
    }

    #[tokio::test]
    async fn a_change_is_seen_by_readers_and_told_to_listeners() {
        let handle = RulesHandle::new(versioned(1), Origin::Default);
        let mut listener = handle.subscribe();
        let before = handle.current();
        handle.apply(versioned(2), Origin::File);
        listener.changed().await.unwrap();
        assert_eq!((listener.borrow().rules.version, listener.borrow().origin), (2, Origin::File));
        assert_eq!(handle.current().version, 2);
        assert_eq!(before.version, 1, "whoever holds a rule set keeps it");
    }

    #[test]
    fn readers_and_listeners_agree_on_the_last_of_many_changes() {
        let handle = RulesHandle::new(versioned(0), Origin::Default);
        let listener = handle.subscribe();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let handle = handle.clone();
                scope.spawn(move || (0..50).for_each(|n| handle.apply(versioned(thread * 100 + n), Origin::File)));
            }
        });
        assert_eq!(handle.current().version, listener.borrow().rules.version);
    }
}
