//! A supervisor that is killed leaves its children. They are found again, and nobody else is taken for them.

use std::{
    fs,
    process::{Child, Command},
};

use serde_json::{Value, json};

use crate::checkout::{Checkout, kill, until};

/// Kills the supervisor of a running system, and only it.
fn half_dead() -> Checkout {
    let checkout = Checkout::new();
    checkout.up(&[]).succeeded();
    let supervisor = checkout.supervisor();
    kill(supervisor, "KILL");
    until("the supervisor is gone", || !fs::exists(format!("/proc/{supervisor}/exe")).unwrap());
    assert_eq!(checkout.process("order", 0)["state"], "ready", "its children live on");
    checkout
}

#[test]
fn status_says_that_a_system_is_half_dead() {
    let said = half_dead().run(&["status"]).says("half dead").says("./dev down stops what is left");
    assert_eq!(said.code, 1);
}

#[test]
fn down_stops_what_a_killed_supervisor_left() {
    let checkout = half_dead();
    checkout.run(&["down"]).succeeded().says("stopping what an earlier run left behind").says("order:0");
    checkout.assert_nothing_is_left();
}

#[test]
fn up_stops_what_a_killed_supervisor_left_and_starts_anew() {
    let checkout = half_dead();
    let before = checkout.process("order", 0)["pid"].clone();
    checkout.up(&[]).succeeded().says("stopping what an earlier run left behind");
    assert_ne!(checkout.process("order", 0)["pid"], before);
}

#[test]
fn restart_needs_a_supervisor() {
    let said = half_dead().run(&["restart", "order"]).says("the supervisor is gone");
    assert_eq!(said.code, 1);
}

struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_stranger_that_got_a_recorded_pid_is_left_alone() {
    let checkout = half_dead();
    let mut stranger = Stranger(Command::new("sleep").arg("600").spawn().unwrap());
    // As if the order process had ended and its pid had gone to the stranger: the start time stays the old one.
    let file = checkout.dir().join("state.json");
    let mut state: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let order = state["processes"].as_array_mut().unwrap().iter_mut().find(|p| p["name"] == "order").unwrap();
    let real = order["identity"]["pid"].as_u64().unwrap();
    kill(u32::try_from(real).unwrap(), "KILL");
    order["identity"]["pid"] = json!(stranger.0.id());
    fs::write(&file, serde_json::to_vec(&state).unwrap()).unwrap();

    assert_eq!(checkout.process("order", 0)["state"], "exited");
    checkout.run(&["down"]).succeeded();
    checkout.assert_nothing_is_left();
    assert!(stranger.0.try_wait().unwrap().is_none(), "the stranger was stopped");
}
