use proptest::prelude::*;

use super::*;
use crate::capacity::sample::{carries, late, step};

const RATES: [f64; 9] = [10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 60.0, 90.0, 120.0];

#[test]
fn the_inflection_is_the_last_step_that_was_carried_and_the_breakage_the_first_that_was_broken() {
    let reading = read(&carries(27.0, RATES)).unwrap();
    assert_eq!((reading.inflection, reading.inflection_at), (25.0, 3));
    assert_eq!((reading.breakage, reading.breakage_at), (60.0, 6), "27 of 60 are less than half");
    assert_eq!((reading.unloaded_p99, reading.noise), (200.0, vec![]));
}

#[test]
fn a_system_that_sells_everything_too_late_has_turned_all_the_same() {
    let steps = [
        step(10.0, 10.0, 200.0),
        step(20.0, 20.0, 400.0),
        step(30.0, 30.0, 401.0),
        step(40.0, 40.0, 900.0),
        step(80.0, 30.0, 900.0),
        step(90.0, 20.0, 900.0),
    ];
    assert_eq!(read(&steps).unwrap().inflection, 20.0);
}

#[test]
fn a_system_that_sells_less_than_before_is_broken_though_it_still_sells_half() {
    let steps = [
        step(10.0, 10.0, 200.0),
        step(40.0, 40.0, 200.0),
        step(44.0, 41.0, 500.0),
        step(50.0, 32.0, 900.0),
        step(55.0, 31.0, 900.0),
    ];
    let reading = read(&steps).unwrap();
    assert_eq!((reading.inflection, reading.breakage), (40.0, 50.0));
}

#[test]
fn the_last_step_that_was_carried_before_a_collapse_at_once_is_the_inflection() {
    let steps = [step(10.0, 10.0, 200.0), step(20.0, 20.0, 210.0), step(30.0, 1.0, 3_000.0), step(40.0, 0.0, 0.0)];
    let reading = read(&steps).unwrap();
    assert_eq!((reading.inflection_at, reading.breakage_at), (1, 2));
}

#[test]
fn no_inflection_is_no_answer() {
    let doubt = read(&carries(500.0, RATES)).unwrap_err();
    assert_eq!(doubt, Doubt::NoInflection { offered: 120.0 });
    assert!(doubt.to_string().contains("go higher"));
}

#[test]
fn an_inflection_without_a_breakage_is_no_answer() {
    let doubt = read(&carries(100.0, RATES.into_iter().chain([130.0]))).unwrap_err();
    assert_eq!(doubt, Doubt::NoBreakage { inflection: 90.0, offered: 130.0 });
}

#[test]
fn a_breakage_that_only_the_last_step_shows_is_not_one_yet() {
    let steps = carries(27.0, [20.0, 25.0, 30.0, 60.0]);
    assert!(matches!(read(&steps), Err(Doubt::NoBreakage { .. })));
}

#[test]
fn a_single_step_says_nothing_whatever_it_came_to() {
    assert_eq!(read(&[step(10.0, 10.0, 200.0)]), Err(Doubt::NoInflection { offered: 10.0 }));
    assert_eq!(read(&[step(10.0, 1.0, 200.0)]), Err(Doubt::NeverCarried { offered: 10.0 }));
    assert_eq!(read(&[]), Err(Doubt::Nothing));
}

#[test]
fn steps_that_begin_above_the_inflection_have_to_begin_lower() {
    assert_eq!(read(&carries(5.0, RATES)), Err(Doubt::NeverCarried { offered: 10.0 }));
}

#[test]
fn one_bad_step_between_two_good_ones_is_noise_and_told() {
    let mut steps = carries(27.0, RATES);
    steps[1] = step(15.0, 9.0, 2_000.0);
    let reading = read(&steps).unwrap();
    assert_eq!((reading.inflection, reading.noise), (25.0, vec![1]));
}

#[test]
fn one_good_step_behind_two_bad_ones_does_not_move_the_inflection() {
    let mut steps = carries(22.0, RATES);
    steps[5] = step(40.0, 40.0, 200.0);
    assert_eq!(read(&steps).unwrap().inflection, 20.0);
}

#[test]
fn one_slow_moment_at_the_beginning_does_not_decide_what_unloaded_means() {
    let mut steps = carries(27.0, RATES);
    steps[0] = step(10.0, 10.0, 4_000.0);
    let reading = read(&steps).unwrap();
    assert_eq!((reading.unloaded_p99, reading.inflection, reading.noise), (200.0, 25.0, vec![0]));
}

#[test]
fn a_generator_that_was_late_before_the_breakage_is_what_was_measured() {
    let mut steps = carries(27.0, RATES);
    steps[5] = late(steps[5].clone());
    let doubt = read(&steps).unwrap_err();
    assert!(matches!(&doubt, Doubt::Generator { offered, .. } if *offered == 40.0), "{doubt}");
    assert!(doubt.to_string().contains("generator was the bottleneck at 40.0/s: generator late"));
}

#[test]
fn a_generator_that_was_late_once_the_system_had_broken_changes_nothing() {
    let whole = read(&carries(27.0, RATES));
    let mut steps = carries(27.0, RATES);
    steps[8] = late(steps[8].clone());
    assert_eq!(read(&steps), whole);
}

#[test]
fn a_limit_at_the_door_is_not_the_capacity_of_what_lies_behind_it() {
    let mut steps = carries(27.0, RATES);
    steps[4].outcomes.insert("429".to_owned(), 500);
    assert!(matches!(read(&steps), Err(Doubt::Limited { offered, .. }) if offered == 30.0));
}

/// Steps that go up, of any height.
fn rates() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(1.0..30.0_f64, 1..30).prop_map(|ups| {
        let up = |at: &mut f64, up: f64| {
            *at += up;
            Some(*at)
        };
        ups.into_iter().scan(0.0, up).collect()
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    (0.0..200.0_f64, 0.0..=1.0_f64, 0.0..5_000.0_f64, prop::bool::weighted(0.1)).prop_map(
        |(offered, share, p99, doubtful)| {
            let step = step(offered, offered * share, p99);
            if doubtful { late(step) } else { step }
        },
    )
}

proptest! {
    #[test]
    fn the_inflection_never_lies_above_what_the_system_carries(capacity in 1.0..500.0_f64, rates in rates()) {
        if let Ok(reading) = read(&carries(capacity, rates.iter().copied())) {
            prop_assert!(reading.inflection <= capacity);
            // And not below it by more than a step: the next one is beyond what it carries.
            prop_assert!(rates[reading.inflection_at + 1] > capacity);
            prop_assert!(reading.breakage > capacity / BROKEN);
        }
    }

    #[test]
    fn steps_that_go_far_enough_always_find_both(capacity in 20.0..200.0_f64, first in 1.0..20.0_f64) {
        let rates = std::iter::successors(Some(first), |rate| Some(rate * 1.3)).take_while(|rate| *rate < capacity * 4.0);
        prop_assert!(read(&carries(capacity, rates)).is_ok());
    }

    #[test]
    fn twice_the_system_under_twice_the_load_reads_twice_as_much(capacity in 1.0..500.0_f64, rates in rates()) {
        let once = read(&carries(capacity, rates.iter().copied()));
        let twice = read(&carries(capacity * 2.0, rates.iter().map(|rate| rate * 2.0)));
        prop_assert_eq!(once.is_ok(), twice.is_ok());
        if let (Ok(once), Ok(twice)) = (once, twice) {
            prop_assert_eq!((once.inflection * 2.0, once.breakage * 2.0), (twice.inflection, twice.breakage));
        }
    }

    #[test]
    fn whatever_was_measured_breakage_lies_behind_the_inflection_and_no_doubtful_step_was_used(
        steps in prop::collection::vec(any_step(), 0..15),
    ) {
        if let Ok(reading) = read(&steps) {
            prop_assert!(reading.inflection_at < reading.breakage_at);
            prop_assert!(steps[..=reading.breakage_at + 1].iter().all(|step| step.generator.doubt.is_none()));
            prop_assert!(steps[reading.inflection_at].success() >= CARRIED);
        }
    }

    #[test]
    fn a_step_that_is_noise_below_the_inflection_moves_nothing(capacity in 40.0..60.0_f64, at in 0..3_usize) {
        let rates = [10.0, 20.0, 30.0, 40.0, 62.0, 80.0, 130.0, 160.0];
        let calm = read(&carries(capacity, rates)).unwrap();
        let mut steps = carries(capacity, rates);
        steps[at] = step(rates[at], rates[at] * 0.2, 3_000.0);
        let noisy = read(&steps).unwrap();
        prop_assert_eq!(noisy, Reading { noise: vec![at], ..calm });
    }

    #[test]
    fn what_comes_after_the_answer_does_not_change_it(capacity in 20.0..60.0_f64, more in prop::collection::vec(any_step(), 0..5)) {
        let mut steps = carries(capacity, [10.0, 15.0, 65.0, 70.0, 150.0, 160.0]);
        let answer = read(&steps).unwrap();
        steps.extend(more);
        prop_assert_eq!(read(&steps).unwrap(), answer);
    }
}
