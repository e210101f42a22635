//! `rules check`, as a person calls it: from any folder, with nothing running.

use std::fs;

use crate::checkout::{Checkout, Said};

#[test]
fn every_mistake_in_a_rules_file_is_told_with_its_place() {
    let checkout = Checkout::new();
    let file = checkout.root.join("rules.toml");
    let document = "[downstream.payment.breaker]\nfailure_ratio = 3\n\n[recover]\nintervall_ms = 5\n\n[downstream.provider]\ntimeout_ms = 2000\n";
    fs::write(&file, document).unwrap();
    let said = checkout.run(&["rules", "check", file.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{}", said.out);
    let lines: Vec<_> = said.out.lines().collect();
    let place = |line: u32, path: &str| format!("{}:{line}: {path}: ", file.display());
    assert!(lines[0].starts_with(&place(2, "downstream.payment.breaker.failure_ratio")), "{}", said.out);
    assert!(lines[1].starts_with(&place(5, "recover.intervall_ms")), "{}", said.out);
    assert!(lines[2].starts_with(&place(8, "downstream.provider.timeout_ms")), "{}", said.out);
    checkout.assert_nothing_is_left();
}

#[test]
fn a_valid_rules_file_is_called_so_and_a_missing_one_is_not() {
    let checkout = Checkout::new();
    let file = checkout.root.join("rules.toml");
    fs::write(&file, "version = 12\n[downstream.payment]\nconnect_timeout_ms = 100\n").unwrap();
    let said = checkout.run(&["rules", "check", file.to_str().unwrap()]);
    assert_eq!((said.code, said.out.trim_end()), (0, format!("{}: valid, version 12", file.display()).as_str()));
    let said = checkout.run(&["rules", "check", "no-such-file.toml"]);
    assert_eq!((said.code, said.err.lines().count()), (1, 1), "{}", said.err);
}

#[test]
fn without_guards_the_services_get_rules_made_from_those_that_were_named() {
    let checkout = Checkout::new();
    let named = checkout.root.join("own.toml");
    fs::write(&named, "version = 12\n[database]\npool = 3\n").unwrap();
    let base = checkout.base.to_string();
    let mut up = checkout.command(&["up", "--detach", "--no-guards", "--port-base", &base]);
    let said = Said::of(up.env("RULES_FILE", &named).output().unwrap());
    said.succeeded().says("guards             OFF");
    let made = checkout.dir().join("rules/no-guards/rules.toml");
    let text = fs::read_to_string(&made).unwrap();
    assert!(
        text.contains("version = 12") && text.contains("pool = 3") && text.contains("forced = \"closed\""),
        "{text}"
    );
    assert_eq!(checkout.run(&["rules", "check", made.to_str().unwrap()]).code, 0);
}

#[test]
fn rules_that_are_refused_are_refused_without_guards_too_before_anything_starts() {
    let checkout = Checkout::new();
    let named = checkout.root.join("own.toml");
    fs::write(&named, "[downstream.payment.breaker]\nfailure_ratio = 3\n").unwrap();
    let base = checkout.base.to_string();
    let mut up = checkout.command(&["up", "--detach", "--no-guards", "--port-base", &base]);
    let said = Said::of(up.env("RULES_FILE", &named).output().unwrap());
    assert_eq!(said.code, 1);
    said.says("own.toml is refused").says("downstream.payment.breaker.failure_ratio");
    checkout.assert_nothing_is_left();
}
