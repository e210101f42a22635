//! `oracle`: what cannot be looked at is told from what is violated. That it finds violations is tested where it is
//! made; that a whole system is clean, at the end of the end-to-end test.

use std::fs;

use crate::checkout::Checkout;

#[test]
fn without_a_system_the_oracle_has_nothing_to_look_at() {
    let checkout = Checkout::new();
    let said = checkout.run(&["oracle"]);
    assert_eq!(said.code, 2);
    said.says("could not look: nothing is running");
}

#[test]
fn a_database_without_tables_and_a_log_that_is_none_are_named() {
    let checkout = Checkout::new();
    checkout.up(&[]).succeeded();
    let said = checkout.run(&["oracle"]);
    assert_eq!(said.code, 2);
    said.says("could not look: the order database cannot be read");
    let log = checkout.root.join("answers.jsonl");
    let wanted = ["oracle", "--answers", log.to_str().unwrap()];
    assert_eq!(checkout.run(&wanted).says("cannot read").code, 2);
    fs::write(&log, "not an answer\n").unwrap();
    assert_eq!(checkout.run(&wanted).says("line 1 is no answer").code, 2);
}
