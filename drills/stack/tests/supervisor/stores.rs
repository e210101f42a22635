//! Stores for tests: there while the command runs, gone after it, however it ends.

use std::{fs, process::Stdio};

use crate::checkout::{Checkout, Said, kill, until};

fn dir(checkout: &Checkout) -> String {
    checkout.root.join("target/dev/test").to_str().unwrap().to_owned()
}

#[test]
fn a_command_finds_its_stores_and_its_exit_code_comes_through() {
    let checkout = Checkout::new();
    let script = "echo $TEST_DATABASE_URL $TEST_REDIS_URL; exit 7";
    let said = checkout.run(&["with-stores", &dir(&checkout), "sh", "-c", script]);
    assert_eq!(said.code, 7, "{}", said.err);
    said.says("postgres://postgres@127.0.0.1:").says("redis://127.0.0.1:");
    until("the stores are gone", || checkout.processes().is_empty());
}

#[test]
fn an_interrupted_command_takes_its_stores_with_it() {
    let checkout = Checkout::new();
    let ready = checkout.root.join("ready");
    let script = format!("touch {}; sleep 600", ready.display());
    let run = checkout
        .command(&["with-stores", &dir(&checkout), "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the command runs", || ready.exists());
    kill(run.id(), "TERM");
    let said = Said::of(run.wait_with_output().unwrap()).says("interrupted");
    assert_eq!(said.code, 1);
    until("the stores are gone", || checkout.processes().is_empty());
}

#[test]
fn what_a_killed_run_left_is_cleared_by_the_next() {
    let checkout = Checkout::new();
    let dir = dir(&checkout);
    let pid = checkout.root.join("pid");
    let script = format!("echo $$ >{}; exec sleep 600", pid.display());
    let mut run = checkout.command(&["with-stores", &dir, "sh", "-c", &script]).spawn().unwrap();
    let command = || fs::read_to_string(&pid).ok()?.trim().parse().ok();
    until("the command runs", || command().is_some());
    kill(run.id(), "KILL");
    run.wait().unwrap();
    kill(command().unwrap(), "KILL");
    checkout.run(&["with-stores", &dir, "true"]).succeeded().says("stopping what an earlier run left behind");
    until("the stores are gone", || checkout.processes().is_empty());
}
