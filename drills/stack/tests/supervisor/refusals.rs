//! A start that cannot succeed: one clear line, a failure, and nothing left.

use std::{fs, net::TcpListener, process};

use crate::checkout::{Checkout, Said};

#[test]
fn a_taken_port_is_named_before_anything_starts() {
    let checkout = Checkout::new();
    let port = checkout.base + 2;
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let said = checkout.up(&[]);
    assert_eq!((said.code, said.err.lines().count()), (1, 1), "{}", said.err);
    said.says(&format!("port {port} (for payment:0) is taken by process {}", process::id()));
    assert!(!checkout.dir().join("postgres").exists(), "something was started");
    drop(taken);
    checkout.assert_nothing_is_left();
}

#[test]
fn a_service_that_ends_while_starting_is_named_with_its_last_words() {
    let checkout = Checkout::new();
    checkout.behave("payment", "exit");
    let said = checkout.up(&[]);
    assert_eq!(said.code, 1);
    said.says("payment:0").says("exit code 3").says("PAYMENT_METHODS: is not a number");
    checkout.assert_nothing_is_left();
}

#[test]
fn a_second_system_on_the_same_base_is_refused_and_the_first_goes_on() {
    let checkout = Checkout::new();
    checkout.up(&[]).succeeded();
    let supervisor = checkout.supervisor();
    let said = checkout.up(&[]).says("runs here already").says(&format!("process {supervisor}"));
    assert_eq!(said.code, 1);
    assert_eq!(checkout.process("order", 0)["state"], "ready");
    assert_eq!(checkout.supervisor(), supervisor);
}

#[test]
fn a_program_that_is_not_built_is_named() {
    let checkout = Checkout::new();
    fs::remove_file(checkout.root.join("bin/coupon")).unwrap();
    let said = checkout.up(&[]).says("bin/coupon is not built");
    assert_eq!(said.code, 1);
    checkout.assert_nothing_is_left();
}

#[test]
fn a_gateway_without_a_program_is_refused_before_anything_starts() {
    let checkout = Checkout::new();
    let base = checkout.base.to_string();
    let mut up = checkout.command(&["up", "--detach", "--gateway", "--port-base", &base]);
    let said = Said::of(up.env("ENVOY", "/nowhere/envoy").output().unwrap());
    assert_eq!((said.code, said.err.lines().count()), (1, 1), "{}", said.err);
    said.says("there is no gateway").says("ENVOY names /nowhere/envoy");
    assert!(!checkout.dir().join("postgres").exists(), "something was started");
    checkout.assert_nothing_is_left();
}

#[test]
fn a_state_folder_that_cannot_be_written_is_one_line() {
    let checkout = Checkout::new();
    fs::create_dir_all(checkout.root.join("target")).unwrap();
    fs::write(checkout.root.join("target/dev"), "a file where a folder belongs").unwrap();
    let said = checkout.up(&[]);
    assert_eq!(said.code, 1);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    said.says("cannot write to").says("target/dev");
    fs::remove_file(checkout.root.join("target/dev")).unwrap();
}

#[test]
fn a_kafka_that_is_not_there_is_named_before_anything_starts() {
    let checkout = Checkout::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = checkout.up(&["--kafka", &nobody.to_string()]).says(&format!("no Kafka at {nobody}"));
    assert_eq!(said.code, 1);
    checkout.assert_nothing_is_left();
}

#[test]
fn a_command_that_does_not_exist_is_unknown() {
    let said = Checkout::new().run(&["drill", "list"]).says("unknown command `drill`");
    assert_eq!(said.code, 2);
}

#[test]
fn a_token_needs_no_checkout_and_no_running_system() {
    let mut command = Checkout::new().command(&["token", "--user", "ada"]);
    let said = command.env_remove("DEV_CHECKOUT").current_dir("/").output().unwrap();
    assert!(said.status.success());
    assert_eq!(String::from_utf8(said.stdout).unwrap().trim().split('.').count(), 3);
}
