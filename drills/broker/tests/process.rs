//! The broker as a process: it says when it is ready, ends with whoever started it, and complains in one line.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

fn start(address: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_broker"))
        .args(["--listen", address])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A port that was free just now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn it_says_its_limits_and_when_it_is_ready_and_ends_when_its_input_closes() {
    let address = free_address();
    let mut broker = start(&address);
    let mut lines = BufReader::new(broker.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("5 MiB"));
    assert_eq!(lines.next().unwrap(), format!("broker: ready on {address}"));
    TcpStream::connect(&address).unwrap();
    drop(broker.stdin.take());
    assert!(broker.wait().unwrap().success());
    assert_eq!(lines.next(), None);
}

#[test]
fn it_ends_on_sigterm() {
    let mut broker = start(&free_address());
    let mut lines = BufReader::new(broker.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("ready")));
    assert!(Command::new("kill").arg(broker.id().to_string()).status().unwrap().success());
    assert!(broker.wait().unwrap().success());
}

#[test]
fn a_taken_port_is_one_clear_line_and_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = start(&address).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

#[test]
fn an_address_that_others_could_reach_is_refused() {
    let output = start("0.0.0.0:0").wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("loopback"));
}
