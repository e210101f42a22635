//! At which level each feature begins: the operator's switch, or one below normal while a composite rule says so.
//!
//! A switch holds for everybody, a rule for whom its conditions hold. Of the two the lower level counts.

use rules::{Levels, RulesHandle};

use crate::{Lifecycle, RequestContext, signals::Signals};

/// What a service asks before it serves a feature. Clones share everything.
#[derive(Clone)]
pub struct Degradation {
    rules: RulesHandle,
    signals: Signals,
}

impl Degradation {
    #[must_use]
    pub fn new(rules: &RulesHandle, lifecycle: &Lifecycle) -> Self {
        Self { rules: rules.clone(), signals: lifecycle.signals().clone() }
    }

    /// The levels for one request. The same fields as `rules.degrade` has, by the rules in force at this moment.
    #[must_use]
    pub fn levels(&self, context: &RequestContext) -> Levels {
        let mut levels = self.rules.current().degrade.switches();
        for eased in self.signals.eased(context) {
            levels.ease(&eased.feature);
        }
        levels
    }

    /// The level of one feature by its name; `None` for a feature that there is none of.
    #[must_use]
    pub fn level(&self, context: &RequestContext, feature: &str) -> Option<&'static str> {
        self.levels(context).names().into_iter().find_map(|(name, level)| (name == feature).then_some(level))
    }
}
