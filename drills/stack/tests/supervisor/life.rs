//! Up, status, restart, death and down.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

use crate::checkout::{Checkout, SERVICES, Said, kill, until};

#[test]
fn up_detached_returns_when_all_are_ready_and_down_leaves_nothing() {
    let checkout = Checkout::new();
    checkout.up(&["--replicas", "order=2"]).succeeded().says("place an order as the user").says("./dev down stops");

    let status = checkout.status();
    let processes = status["processes"].as_array().unwrap();
    // A second order, two channels of the provider, the links and the console.
    assert_eq!(processes.len(), SERVICES.len() + 1 + 2 + 1 + 1);
    assert_eq!(checkout.process("links", 0)["api"], format!("127.0.0.1:{}", checkout.base + 394));
    for process in processes {
        assert_eq!(process["state"], "ready", "{process}");
    }
    let second = checkout.process("order", 1);
    assert_eq!(second["api"], format!("127.0.0.1:{}", checkout.base + 100));
    assert_eq!(second["admin"], format!("127.0.0.1:{}", checkout.base + 1100));
    checkout.run(&["status"]).says(&format!("127.0.0.1:{}", checkout.base + 421)).says("link order->payment");
    assert_eq!(status["stores"]["kafka"]["kind"], "embedded");
    for store in ["postgres", "redis", "kafka"] {
        assert!(status["stores"][store]["pid"].is_u64(), "{store}");
    }

    checkout.run(&["down"]).succeeded();
    checkout.assert_nothing_is_left();
    assert!(checkout.dir().join("postgres/PG_VERSION").exists(), "the data survives");
    checkout.run(&["status"]).says("nothing is running");
    checkout.run(&["down"]).succeeded().says("nothing is running");
    checkout.run(&["down", "--wipe"]).succeeded();
    assert!(!checkout.dir().exists());
}

#[test]
fn direct_leaves_the_links_out_and_no_console_the_console() {
    let checkout = Checkout::new();
    checkout.up(&["--direct", "--no-console"]).succeeded();
    assert!(checkout.process("links", 0).is_null() && checkout.process("console", 0).is_null());
    assert_eq!(checkout.status()["processes"].as_array().unwrap().len(), SERVICES.len() + 2);
}

#[test]
fn a_console_that_does_not_start_keeps_nothing_else_from_it() {
    let checkout = Checkout::new();
    checkout.behave("console", "exit");
    checkout.up(&[]).succeeded();
    assert_eq!(checkout.process("order", 0)["state"], "ready");
    assert_eq!(checkout.process("console", 0)["state"], "exited");
}

#[test]
fn what_is_in_the_database_survives_down_and_up() {
    let checkout = Checkout::new();
    checkout.up(&[]).succeeded();
    let first = fs::metadata(checkout.dir().join("postgres/PG_VERSION")).unwrap().modified().unwrap();
    checkout.run(&["down"]).succeeded();
    checkout.up(&[]).succeeded();
    assert_eq!(fs::metadata(checkout.dir().join("postgres/PG_VERSION")).unwrap().modified().unwrap(), first);
}

#[test]
fn in_the_foreground_an_interrupt_stops_everything() {
    let checkout = Checkout::new();
    let base = checkout.base.to_string();
    let mut up = checkout.command(&["up", "--port-base", &base]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Ctrl-C stops everything")), "it ended early");
    kill(up.id(), "INT");
    assert!(lines.any(|line| line == "stopping"));
    assert!(up.wait().unwrap().success());
    checkout.assert_nothing_is_left();
}

#[test]
fn a_supervisor_goes_on_when_nobody_listens_to_it_any_more() {
    let checkout = Checkout::new();
    let base = checkout.base.to_string();
    let mut up = checkout.command(&["up", "--port-base", &base]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Ctrl-C stops everything")), "it ended early");
    drop(lines);
    // Something to say, twice.
    for _ in 0..2 {
        let pid = checkout.process("coupon", 0)["pid"].as_u64().unwrap();
        kill(u32::try_from(pid).unwrap(), "KILL");
        until("the death is known", || checkout.process("coupon", 0)["state"] == "exited");
        checkout.run(&["restart", "coupon"]).succeeded();
    }
    kill(up.id(), "TERM");
    assert!(up.wait().unwrap().success());
    checkout.assert_nothing_is_left();
}

#[test]
fn a_process_that_dies_is_reported_and_stays_dead_until_it_is_restarted() {
    let checkout = Checkout::new();
    checkout.up(&[]).succeeded();
    let first = checkout.process("payment", 0)["pid"].as_u64().unwrap();
    kill(u32::try_from(first).unwrap(), "KILL");
    // That it is gone is seen at once; of what it died, the supervisor has to write down first.
    until("the death is known", || checkout.run(&["status"]).out.contains("signal 9"));
    assert_eq!(checkout.process("payment", 0)["state"], "exited");
    assert_eq!(checkout.run(&["status"]).code, 1);
    until("the death is reported", || {
        checkout.run(&["logs", "supervisor"]).out.contains("payment:0 died by itself (signal 9)")
    });

    checkout.run(&["restart", "payment:0"]).succeeded().says("payment:0 is ready again");
    let second = checkout.process("payment", 0);
    assert_eq!(second["state"], "ready");
    assert_ne!(second["pid"].as_u64().unwrap(), first);
}

#[test]
fn restart_gives_a_live_process_a_new_life_and_does_not_call_it_a_death() {
    let checkout = Checkout::new();
    checkout.up(&[]).succeeded();
    for (args, name) in [(&["restart", "coupon"][..], "coupon"), (&["restart", "coupon:0", "--kill"], "coupon")] {
        let before = checkout.process(name, 0)["pid"].clone();
        checkout.run(args).succeeded();
        assert_ne!(checkout.process(name, 0)["pid"], before);
    }
    checkout.run(&["restart", "postgres", "--kill"]).succeeded();
    let supervisor = checkout.run(&["logs", "supervisor"]).out;
    assert!(!supervisor.contains("died by itself"), "{supervisor}");
    checkout.run(&["restart", "mail"]).says("no such process; there are");
}

#[test]
fn a_setting_given_at_a_restart_is_for_that_life_alone() {
    let checkout = Checkout::new();
    checkout.up(&[]).succeeded();
    let environment = || {
        let pid = checkout.process("payment", 0)["pid"].clone();
        fs::read_to_string(format!("/proc/{pid}/environ")).unwrap()
    };
    checkout.run(&["restart", "payment:0", "--env", "CRASH_AT=before_the_call", "--env", "APP_ENV=test"]).succeeded();
    let armed = environment();
    assert!(armed.contains("CRASH_AT=before_the_call\0") && armed.contains("APP_ENV=test\0"), "{armed}");
    checkout.run(&["restart", "payment"]).succeeded();
    let plain = environment();
    assert!(!plain.contains("CRASH_AT") && plain.contains("APP_ENV=dev\0"), "{plain}");
    checkout.run(&["restart", "payment", "--env", "CRASH_AT"]).says("expected NAME=VALUE");
}

#[test]
fn with_keep_a_process_that_dies_is_started_again() {
    let checkout = Checkout::new();
    checkout.up(&["--keep"]).succeeded();
    let first = checkout.process("inventory", 0)["pid"].as_u64().unwrap();
    kill(u32::try_from(first).unwrap(), "KILL");
    until("it lives again", || {
        let now = checkout.process("inventory", 0);
        now["state"] == "ready" && now["pid"].as_u64() != Some(first)
    });
}

#[test]
fn in_a_folder_that_only_its_owner_can_enter_the_database_starts_too() {
    let checkout = Checkout::new();
    fs::set_permissions(&checkout.root, fs::Permissions::from_mode(0o700)).unwrap();
    checkout.up(&[]).succeeded();
    checkout.run(&["down"]).succeeded();
    checkout.assert_nothing_is_left();
}

#[test]
fn without_redis_the_system_says_so_and_runs() {
    let checkout = Checkout::new();
    checkout.up(&["--no-redis"]).succeeded().says("runs degraded");
    assert!(checkout.status()["stores"]["redis"]["url"].is_null());
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_when_restarted() {
    let checkout = Checkout::new();
    checkout.behave("provider", "stubborn");
    checkout.up(&[]).succeeded();
    let before = checkout.process("provider-backup", 0)["pid"].clone();
    checkout.run(&["restart", "provider-backup"]).succeeded();
    assert_ne!(checkout.process("provider-backup", 0)["pid"], before);
}

#[test]
fn an_interrupt_while_detaching_stops_what_was_started() {
    let checkout = Checkout::new();
    checkout.behave("order", "unready");
    let base = checkout.base.to_string();
    let up = checkout
        .command(&["up", "--detach", "--port-base", &base])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a service runs", || checkout.process("inventory", 0)["state"] == "ready");
    kill(up.id(), "INT");
    let said = Said::of(up.wait_with_output().unwrap()).says("interrupted while starting");
    assert_eq!(said.code, 1);
    checkout.assert_nothing_is_left();
}
