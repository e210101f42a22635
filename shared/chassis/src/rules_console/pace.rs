//! How often the console is asked, decided: at once after news, once a second where nothing was waited for, and ever
//! less often, up to every few seconds, while it does not answer. Jittered, so that the instances of a cluster do not
//! all come back to it in the same moment.

use std::time::Duration;

/// After a first failure, doubled with each.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);
/// From one question to the next that brought nothing new: who answers sooner than it was asked to wait is not asked
/// more often for that.
const APART: Duration = Duration::from_secs(1);

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    News,
    NoNews,
    NoAnswer,
}

#[derive(Debug, Default)]
pub(super) struct Pace {
    failures: u32,
}

impl Pace {
    /// The pause before the next question. `took` is how long this one did, `chance` from 0 to 1.
    pub fn after(&mut self, came: Came, took: Duration, chance: f64) -> Duration {
        match came {
            Came::News => {
                self.failures = 0;
                Duration::ZERO
            }
            Came::NoNews => {
                self.failures = 0;
                APART.saturating_sub(took)
            }
            Came::NoAnswer => {
                let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
                self.failures = self.failures.saturating_add(1);
                // Half of it at least.
                whole.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_followed_at_once_and_quick_answers_without_any_are_not() {
        let mut pace = Pace::default();
        assert_eq!(pace.after(Came::News, Duration::ZERO, 0.5), Duration::ZERO);
        assert_eq!(pace.after(Came::NoNews, Duration::from_millis(300), 0.5), Duration::from_millis(700));
        assert_eq!(pace.after(Came::NoNews, Duration::from_secs(25), 0.5), Duration::ZERO);
    }

    #[test]
    fn a_console_that_is_away_is_asked_less_and_less_and_never_in_step() {
        let mut pace = Pace::default();
        let pauses: Vec<_> = (0..8).map(|_| pace.after(Came::NoAnswer, Duration::ZERO, 1.0).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
        assert_eq!(pace.after(Came::NoAnswer, Duration::ZERO, 0.0).as_millis(), 2_500);
        pace.after(Came::NoNews, Duration::ZERO, 1.0);
        assert_eq!(pace.after(Came::NoAnswer, Duration::ZERO, 1.0).as_millis(), 250, "an answer forgives");
    }
}
