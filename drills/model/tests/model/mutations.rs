//! Without any one safeguard, something breaks: a safeguard whose absence nobody notices would prove nothing.

use model::{
    Model,
    safeguards::{MUTATIONS, NOT_NEEDED_ALONE},
};
use stateright::HasDiscoveries;

use crate::explore;

macro_rules! traces {
    ($($name:ident: $trace:literal,)*) => {$(
        #[test]
        fn $name() {
            let mutations: Vec<_> = MUTATIONS.iter().filter(|mutation| mutation.trace == $trace).collect();
            assert!(!mutations.is_empty());
            for mutation in mutations {
                let model = Model { setting: mutation.setting, without: mutation.without };
                let explored = explore(model, HasDiscoveries::AnyFailures, 1);
                println!("trace {}, without {:?}\n{}", mutation.trace, mutation.without, explored.summary);
                let Some((claim, story)) = explored.broken.first() else {
                    panic!("nobody misses {:?}: {}", mutation.without, explored.summary);
                };
                println!("{claim}\n{story}");
            }
        }
    )*};
}

traces! {
    trace_1_a_charge_arrives_after_the_fence: 1,
    trace_2_a_call_pauses_between_its_intent_and_its_request: 2,
    trace_3_a_deferred_order_cannot_be_ended: 3,
    trace_4_a_fence_throws_evidence_away: 4,
    trace_5_a_lease_expires_under_a_run_that_lives: 5,
    trace_6_running_out_of_time_frees_the_key: 6,
    trace_7_a_fence_after_a_dispatch_frees_the_key: 7,
    trace_8_a_key_is_forgotten_too_early: 8,
    trace_9_a_request_to_pay_comes_twice: 9,
    trace_10_an_unknown_try_is_taken_for_one_that_was_not_sent: 10,
    trace_11_a_request_leaves_without_an_intent: 11,
    trace_12_a_channel_is_not_asked: 12,
    trace_13_a_second_charge_is_swallowed: 13,
    trace_14_a_version_drops_a_refund: 14,
    trace_16_nobody_owns_a_row: 16,
    trace_17_a_settlement_tells_nobody: 17,
    trace_18_a_cancel_is_forgotten: 18,
    trace_19_a_commit_follows_its_release: 19,
    trace_20_the_broker_loses_what_an_order_told: 20,
    trace_21_a_full_refund_forgets_the_partial_one: 21,
    trace_23_a_hold_outlives_its_release: 23,
    trace_24_a_retry_meets_its_own_hold: 24,
    trace_25_a_refused_hold_is_never_released: 25,
    trace_26_a_pending_order_waits_for_ever: 26,
    trace_27_a_duplicate_becomes_a_dead_letter: 27,
    trace_28_the_message_of_a_late_charge_is_lost: 28,
}

/// Should one of these break something one day, it belongs among the others.
#[test]
fn what_another_safeguard_makes_up_for_breaks_nothing_alone() {
    for mutation in NOT_NEEDED_ALONE {
        let model = Model { setting: mutation.setting, without: mutation.without };
        let explored = explore(model, HasDiscoveries::AnyFailures, 1);
        println!("trace {}, without {:?}\n{}", mutation.trace, mutation.without, explored.summary);
        assert!(explored.broken.is_empty(), "{}\n{}", explored.broken[0].0, explored.broken[0].1);
    }
}
