//! Which version is meant for which instance.

use std::sync::Arc;

/// A version that is in force somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub version: i64,
    pub document: Arc<str>,
}

/// Everything that is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InForce {
    pub active: Option<Held>,
    /// With the instances that try it out.
    pub canary: Option<(Held, Vec<String>)>,
    /// Whether any version has ever been in force.
    pub ever: bool,
}

/// What an instance is to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant<'a> {
    /// Nothing has ever been said: it stays with what it has. A console that has lost its history must not take theirs
    /// from those that remember.
    Unsaid,
    /// What was said was taken back: it runs on rules of its own.
    ItsOwn,
    Active(&'a Held),
    Canary(&'a Held),
}

impl InForce {
    #[must_use]
    pub fn meant_for(&self, instance: &str) -> Meant<'_> {
        match (&self.canary, &self.active) {
            (Some((held, instances)), _) if instances.iter().any(|name| name == instance) => Meant::Canary(held),
            (_, Some(held)) => Meant::Active(held),
            _ if self.ever => Meant::ItsOwn,
            _ => Meant::Unsaid,
        }
    }
}

impl Meant<'_> {
    /// What tells it from another; 0 for an instance's own rules.
    #[must_use]
    pub const fn tag(&self) -> Option<i64> {
        match self {
            Self::Unsaid => None,
            Self::ItsOwn => Some(0),
            Self::Active(held) | Self::Canary(held) => Some(held.version),
        }
    }

    /// Whether it is news to an instance that has `seen` this.
    #[must_use]
    pub fn is_news_to(&self, seen: Option<i64>) -> bool {
        self.tag().is_some_and(|tag| seen != Some(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(version: i64) -> Held {
        Held { version, document: "".into() }
    }

    fn tags(in_force: &InForce) -> [Option<i64>; 2] {
        ["order-0", "order-1"].map(|instance| in_force.meant_for(instance).tag())
    }

    #[test]
    fn a_canary_is_for_the_instances_that_it_names_and_its_end_brings_them_back() {
        let canary = Some((held(2), vec!["order-0".to_owned()]));
        let tried = InForce { active: Some(held(1)), canary: canary.clone(), ever: true };
        assert_eq!(tags(&tried), [Some(2), Some(1)]);
        assert_eq!(tags(&InForce { canary: None, ..tried }), [Some(1), Some(1)]);
        let first = InForce { active: None, canary, ever: true };
        assert_eq!(tags(&first), [Some(2), Some(0)]);
        assert_eq!(tags(&InForce { canary: None, ..first }), [Some(0), Some(0)], "back to rules of its own");
        assert_eq!(tags(&InForce::default()), [None, None]);
    }

    #[test]
    fn a_lower_version_is_news_too() {
        let in_force = InForce { active: Some(held(1)), canary: None, ever: true };
        let meant = in_force.meant_for("order-0");
        assert!(meant.is_news_to(None) && meant.is_news_to(Some(2)) && meant.is_news_to(Some(0)));
        assert!(!meant.is_news_to(Some(1)));
        assert!(!InForce::default().meant_for("order-0").is_news_to(Some(7)), "who remembers is not told to forget");
    }
}
