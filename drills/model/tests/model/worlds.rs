//! Every claim holds in every state of every world, and the worlds are not empty.

use std::fmt::Write;

use model::{Model, setting::Setting, worlds};
use stateright::HasDiscoveries;

use crate::explore;

const LATE_APPROVAL: &str = "seen: a late approval is refunded";
const FENCED_AND_CHARGED: &str = "seen: a fenced attempt is charged";
const SECOND_WEBHOOK: &str = "seen: a webhook comes for what is settled";
const TAKEN_OVER: &str = "seen: a lease is taken over from a run that lives";
const CANCEL_IN_FLIGHT: &str = "seen: a cancel comes while the charge is in flight";
const DEFERRED_CHARGE: &str = "seen: a deferred charge is made";
const DISCOUNT_BACK: &str = "seen: a discount that was promised is refunded";
const CHARGE_TOO_MANY: &str = "seen: a charge too many is refunded";
const LAST_UNIT: &str = "seen: the last unit goes to one order, and another is without";
const KEY_FREED: &str = "seen: a freed key makes a second order, and it is confirmed";

/// The report, or what is wrong.
fn check(setting: Setting, expected: &[&str], threads: usize) -> Result<String, String> {
    // To the end: not even all failures together would stop it.
    let explored = explore(Model::whole(setting), HasDiscoveries::All, threads);
    let mut report = explored.summary;
    for (claim, story) in &explored.broken {
        write!(report, "\nbroken: {claim}\n{story}").map_err(|error| error.to_string())?;
    }
    let missing: Vec<_> = expected.iter().filter(|name| !explored.seen.contains(*name)).collect();
    if !missing.is_empty() {
        write!(report, "\nnever {missing:?}").map_err(|error| error.to_string())?;
    }
    if explored.broken.is_empty() && missing.is_empty() { Ok(report) } else { Err(report) }
}

macro_rules! small_worlds {
    ($($name:ident: $setting:ident, $expected:expr;)*) => {$(
        #[test]
        fn $name() {
            match check(worlds::$setting, &$expected, 1) {
                Ok(report) => println!("{report}"),
                Err(report) => panic!("{report}"),
            }
        }
    )*};
}

small_worlds! {
    one_order_survives_a_crash_a_loss_and_a_refusal: ALONE, [LATE_APPROVAL, FENCED_AND_CHARGED, SECOND_WEBHOOK];
    a_charge_may_come_late: LATE, [LATE_APPROVAL, FENCED_AND_CHARGED];
    a_late_charge_may_be_told_in_vain: CONTRADICTED, [LATE_APPROVAL, FENCED_AND_CHARGED];
    a_call_may_stand_still_before_it_sends: PAUSED, [LATE_APPROVAL];
    a_charge_may_wait: DEFERRED, [DEFERRED_CHARGE, CANCEL_IN_FLIGHT];
    a_cancel_may_come_at_any_moment: CANCELLED, [CANCEL_IN_FLIGHT, SECOND_WEBHOOK, LATE_APPROVAL];
    two_requests_with_one_key_make_one_order: TWICE, [LATE_APPROVAL, KEY_FREED];
    a_run_may_die_or_be_overtaken_by_another: OVERLAP, [TAKEN_OVER, LATE_APPROVAL, KEY_FREED];
    a_request_to_pay_may_be_refused_and_come_twice: REFUSED, [LATE_APPROVAL, KEY_FREED];
    a_backup_is_asked_only_when_the_primary_was_not_told: TWO_CHANNELS, [LATE_APPROVAL, FENCED_AND_CHARGED];
    a_charge_too_many_goes_back: LYING, [CHARGE_TOO_MANY];
    a_coupon_may_not_answer: COUPON, [DISCOUNT_BACK, CANCEL_IN_FLIGHT];
    a_client_that_is_told_to_come_again_can: RETRY, [KEY_FREED];
    two_clients_may_want_the_last_unit: UNIT, [LAST_UNIT];
}

/// A minute and more each.
#[test]
fn the_large_worlds_are_as_clean_as_the_small_ones() {
    if std::env::var_os("DEV_TEST_FULL").is_none() {
        println!("skipped: DEV_TEST_FULL is not set");
        return;
    }
    let mut broken = Vec::new();
    for setting in worlds::LARGE {
        match check(setting, &[], 2) {
            Ok(report) => println!("{report}"),
            Err(report) => broken.push(report),
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
