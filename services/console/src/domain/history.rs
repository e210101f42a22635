//! The life of a version, decided: `draft → canary → active → superseded | rolled_back`.
//!
//! One version is active at most, and one is a canary at most. A version comes into force once: numbers rise with time,
//! so that one which was written before the active one and does not know what that says is never put over it, and
//! nobody's change is lost. Only a roll-back goes to a lower number, to the one that was in force before.

use contracts::ruling::VersionState::{self, Active, Canary, Draft, RolledBack, Superseded};

/// A version, as far as decisions need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub version: i64,
    pub state: VersionState,
}

/// What an operator wants done with one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// On these instances alone, for now; for one that is a canary already, on these instead.
    Canary(Vec<String>),
    Promote,
    Rollback,
}

/// A version's next state. In the order in which they are to be carried out: whoever steps down goes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub version: i64,
    pub from: VersionState,
    pub to: VersionState,
    /// The instances of a canary.
    pub canary: Option<Vec<String>>,
}

/// Why it is not done. All but an unknown version come of somebody else having been first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no version {0}")]
    Unknown(i64),
    #[error("it is based on {}, and the newest version is {}", or_none(.based_on), or_none(.newest))]
    NotNewest { based_on: Option<i64>, newest: Option<i64> },
    #[error("version {active} came into force after version {version} was written; publish it anew, based on that")]
    Outdated { version: i64, active: i64 },
    #[error("version {0} is tried out; promote it or roll it back first")]
    AnotherCanary(i64),
    #[error("version {version} is {}", .state.as_str())]
    NotNow { version: i64, state: VersionState },
}

fn or_none(version: &Option<i64>) -> String {
    version.map_or_else(|| "none".to_owned(), |version| format!("version {version}"))
}

/// The number of a version that is published now by somebody who has seen `based_on` as the newest.
pub fn publish(history: &[Standing], based_on: Option<i64>) -> Result<i64, Refusal> {
    let newest = newest(history);
    if newest == based_on { Ok(next(history)) } else { Err(Refusal::NotNewest { based_on, newest }) }
}

/// The number of a version that comes into force at once, and who makes room for it. A canary ends too: it does not
/// have what is so urgent.
pub fn take_over(history: &[Standing]) -> (i64, Vec<Change>) {
    let down = [(Canary, RolledBack), (Active, Superseded)];
    let down = down.into_iter().filter_map(|(from, to)| Some(step(find(history, from)?, from, to)));
    (next(history), down.collect())
}

/// What follows from an act on `version`.
pub fn decide(history: &[Standing], version: i64, act: &Act) -> Result<Vec<Change>, Refusal> {
    let state = history.iter().find(|known| known.version == version).ok_or(Refusal::Unknown(version))?.state;
    let active = find(history, Active);
    match (state, act) {
        // Draft | Canary → Canary
        (Draft | Canary, Act::Canary(instances)) => {
            may_come(history, version, active)?;
            Ok(vec![Change { canary: Some(instances.clone()), ..step(version, state, Canary) }])
        }
        // Draft | Canary → Active, Active → Superseded
        (Draft | Canary, Act::Promote) => {
            may_come(history, version, active)?;
            let down = active.map(|active| step(active, Active, Superseded));
            Ok(down.into_iter().chain([step(version, state, Active)]).collect())
        }
        // Canary → RolledBack
        (Canary, Act::Rollback) => Ok(vec![step(version, Canary, RolledBack)]),
        // Active → RolledBack, the last Superseded → Active. Before the first there was none: then each service runs on
        // what it has of its own.
        (Active, Act::Rollback) => {
            let before = history.iter().filter(|known| known.state == Superseded).map(|known| known.version).max();
            let up = before.map(|before| step(before, Superseded, Active));
            Ok([step(version, Active, RolledBack)].into_iter().chain(up).collect())
        }
        (Draft, Act::Rollback) | (Active | Superseded | RolledBack, _) => Err(Refusal::NotNow { version, state }),
    }
}

/// Nobody else is tried out, and nothing newer is in force.
fn may_come(history: &[Standing], version: i64, active: Option<i64>) -> Result<(), Refusal> {
    if let Some(other) = find(history, Canary).filter(|other| *other != version) {
        return Err(Refusal::AnotherCanary(other));
    }
    match active {
        Some(active) if active > version => Err(Refusal::Outdated { version, active }),
        _ => Ok(()),
    }
}

fn find(history: &[Standing], state: VersionState) -> Option<i64> {
    history.iter().find(|known| known.state == state).map(|known| known.version)
}

fn newest(history: &[Standing]) -> Option<i64> {
    history.iter().map(|known| known.version).max()
}

fn next(history: &[Standing]) -> i64 {
    newest(history).unwrap_or(0) + 1
}

const fn step(version: i64, from: VersionState, to: VersionState) -> Change {
    Change { version, from, to, canary: None }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    /// What the store does with changes, and what it would refuse.
    fn carry_out(history: &mut [Standing], changes: &[Change]) {
        for change in changes {
            let found = history.iter_mut().find(|known| known.version == change.version).unwrap();
            assert_eq!(found.state, change.from, "{change:?}");
            assert_eq!(change.canary.is_some(), change.to == Canary, "{change:?}");
            found.state = change.to;
            for state in [Active, Canary] {
                assert!(history.iter().filter(|known| known.state == state).count() <= 1, "two are {state:?}");
            }
        }
    }

    fn states(history: &[Standing]) -> Vec<VersionState> {
        history.iter().map(|known| known.state).collect()
    }

    fn of(states: &[VersionState]) -> Vec<Standing> {
        (1..).zip(states).map(|(version, state)| Standing { version, state: *state }).collect()
    }

    fn after(before: &[VersionState], version: i64, act: &Act) -> Result<Vec<VersionState>, Refusal> {
        let mut history = of(before);
        let changes = decide(&history, version, act)?;
        carry_out(&mut history, &changes);
        Ok(states(&history))
    }

    fn on(instance: &str) -> Act {
        Act::Canary(vec![instance.to_owned()])
    }

    #[test]
    fn a_version_is_tried_out_promoted_and_taken_back() {
        let tried = after(&[Active, Draft], 2, &on("order-0")).unwrap();
        assert_eq!(tried, [Active, Canary]);
        assert_eq!(after(&tried, 2, &on("order-1")).unwrap(), [Active, Canary]);
        assert_eq!(after(&tried, 2, &Act::Rollback).unwrap(), [Active, RolledBack]);
        let promoted = after(&tried, 2, &Act::Promote).unwrap();
        assert_eq!(promoted, [Superseded, Active]);
        assert_eq!(after(&promoted, 2, &Act::Rollback).unwrap(), [Active, RolledBack]);
        assert_eq!(after(&[Active], 1, &Act::Rollback).unwrap(), [RolledBack], "the services have rules of their own");
    }

    #[test]
    fn what_is_older_than_the_rules_in_force_does_not_come_over_them() {
        let refused = Err(Refusal::Outdated { version: 1, active: 2 });
        assert_eq!(after(&[Draft, Active], 1, &Act::Promote), refused);
        assert_eq!(after(&[Draft, Active], 1, &on("order-0")), refused);
    }

    #[test]
    fn one_version_is_tried_out_at_a_time() {
        assert_eq!(after(&[Canary, Draft], 2, &on("order-0")), Err(Refusal::AnotherCanary(1)));
        assert_eq!(after(&[Canary, Draft], 2, &Act::Promote), Err(Refusal::AnotherCanary(1)));
    }

    #[test]
    fn whoever_has_not_seen_the_newest_version_cannot_publish() {
        assert_eq!(publish(&[], None), Ok(1));
        assert_eq!(publish(&of(&[Active, Draft]), Some(2)), Ok(3));
        let refused = publish(&of(&[Active, Draft]), Some(1)).unwrap_err();
        assert_eq!(refused.to_string(), "it is based on version 1, and the newest version is version 2");
        assert!(publish(&[], Some(1)).is_err() && publish(&of(&[Draft]), None).is_err());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Publish,
        TakeOver,
        Act(i64, Act),
    }

    fn op() -> impl Strategy<Value = Op> {
        let act = select(vec![on("order-0"), on("order-1"), Act::Promote, Act::Rollback]);
        prop_oneof![
            2 => Just(Op::Publish),
            1 => Just(Op::TakeOver),
            6 => (1_i64..8, act).prop_map(|(version, act)| Op::Act(version, act)),
        ]
    }

    proptest! {
        #[test]
        fn whatever_operators_do_the_history_stays_sound(ops in vec(op(), 0..60)) {
            let mut history: Vec<Standing> = Vec::new();
            for op in ops {
                let before = history.clone();
                match op {
                    Op::Publish => {
                        let version = publish(&history, newest(&history)).unwrap();
                        history.push(Standing { version, state: Draft });
                    }
                    Op::TakeOver => {
                        let (version, changes) = take_over(&history);
                        carry_out(&mut history, &changes);
                        history.push(Standing { version, state: Active });
                        prop_assert_eq!(find(&history, Canary), None);
                    }
                    Op::Act(version, act) => match decide(&history, version, &act) {
                        Ok(changes) => {
                            carry_out(&mut history, &changes);
                            if act == Act::Promote {
                                prop_assert_eq!(find(&history, Active), Some(version));
                            }
                        }
                        Err(refusal) => {
                            prop_assert_eq!(refusal == Refusal::Unknown(version), version > history.len() as i64);
                        }
                    },
                }
                // Numbers are never used twice and never vanish.
                prop_assert!(history.iter().map(|known| known.version).eq(1..=history.len() as i64));
                for (was, is) in before.iter().zip(&history) {
                    prop_assert!(was.state != RolledBack || is.state == RolledBack, "one that was taken back is back");
                    prop_assert!(is.state != Draft || was.state == Draft, "a draft again");
                }
                if let Some(active) = find(&history, Active) {
                    let older = |known: &Standing| known.state != Superseded || known.version < active;
                    prop_assert!(history.iter().all(older), "the last superseded would not be the one before");
                    prop_assert!(find(&history, Canary).is_none_or(|canary| canary > active));
                }
            }
        }
    }
}
