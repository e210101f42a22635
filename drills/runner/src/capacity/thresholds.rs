//! What may be let in, from what was measured. Pure.
//!
//! Safe is 70 % of the inflection, since tomorrow's orders are not today's and a measurement is one afternoon; and of
//! what is safe, 80 % for each instance that there is, since they never get equal shares. Beside it, as a second opinion
//! from the other end, the breakage divided by two and by three.

use serde::Serialize;

use super::reading::Reading;

/// Of the inflection, what is safe.
pub const SAFE: f64 = 0.7;
/// Of what is safe for all instances together, what is let in.
pub const ADMITTED: f64 = 0.8;
/// What the breakage is divided by.
pub const OF_BREAKAGE: [f64; 2] = [3.0, 2.0];

/// Orders a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thresholds {
    pub instances: u16,
    /// At the inflection, for each instance: the lesser of what the two curves say.
    pub inflection_each: f64,
    pub safe_each: f64,
    /// Of all instances together.
    pub threshold: f64,
    pub threshold_each: f64,
    /// A third and a half of the breakage of all.
    pub by_breakage: [f64; 2],
    /// What those that are left let in when one is missing.
    pub one_missing_admits: f64,
    /// What they still carry.
    pub one_missing_carries: f64,
}

impl Thresholds {
    /// From the curve of all `instances`, at least two of them, and the curve of one fewer.
    #[must_use]
    pub fn of(all: &Reading, one_missing: &Reading, instances: u16) -> Self {
        let (n, left) = (f64::from(instances), f64::from(instances.saturating_sub(1).max(1)));
        let inflection_each = (all.inflection / n).min(one_missing.inflection / left);
        let safe_each = inflection_each * SAFE;
        let threshold_each = safe_each * ADMITTED;
        Self {
            instances,
            inflection_each,
            safe_each,
            threshold: threshold_each * n,
            threshold_each,
            by_breakage: OF_BREAKAGE.map(|divisor| all.breakage / divisor),
            one_missing_admits: threshold_each * left,
            one_missing_carries: one_missing.inflection,
        }
    }

    /// Whether those that are left would carry all that is let in while nobody is missing.
    #[must_use]
    pub fn can_miss_one(&self) -> bool {
        self.threshold <= self.one_missing_carries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(inflection: f64, breakage: f64) -> Reading {
        Reading { unloaded_p99: 200.0, inflection, inflection_at: 3, breakage, breakage_at: 6, noise: Vec::new() }
    }

    #[test]
    fn thresholds_follow_from_the_inflection_of_one_instance() {
        let found = Thresholds::of(&reading(40.0, 90.0), &reading(20.0, 50.0), 2);
        assert_eq!((found.inflection_each, found.safe_each), (20.0, 14.0));
        assert!((found.threshold - 22.4).abs() < 1e-9 && (found.threshold_each - 11.2).abs() < 1e-9);
        assert_eq!(found.by_breakage, [30.0, 45.0]);
        assert!((found.one_missing_admits - 11.2).abs() < 1e-9);
        assert!(!found.can_miss_one(), "one carries 20 a second, and 22.4 are let in");
    }

    #[test]
    fn the_worse_of_the_two_curves_counts() {
        let scales_badly = Thresholds::of(&reading(30.0, 90.0), &reading(20.0, 50.0), 2);
        assert_eq!(scales_badly.inflection_each, 15.0);
        let suffers_alone = Thresholds::of(&reading(40.0, 90.0), &reading(10.0, 50.0), 2);
        assert_eq!(suffers_alone.inflection_each, 10.0);
    }

    #[test]
    fn three_instances_carry_what_is_let_in_also_without_one() {
        let found = Thresholds::of(&reading(60.0, 150.0), &reading(40.0, 100.0), 3);
        assert!((found.threshold - 33.6).abs() < 1e-9);
        assert!(found.can_miss_one());
    }

    proptest! {
        #[test]
        fn what_is_let_in_always_lies_below_what_was_measured(
            all in 1.0..1_000.0_f64, missing in 1.0..1_000.0_f64, instances in 2..10_u16,
        ) {
            let found = Thresholds::of(&reading(all, all * 2.0), &reading(missing, missing * 2.0), instances);
            prop_assert!(found.threshold <= all * SAFE * ADMITTED + 1e-9);
            prop_assert!(found.one_missing_admits <= missing * SAFE * ADMITTED + 1e-9);
            prop_assert!(found.threshold_each < found.safe_each && found.safe_each < found.inflection_each);
        }
    }
}
