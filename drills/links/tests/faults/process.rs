//! The real binary: it says when it is ready, ends on SIGTERM, and complains in one line.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
};

fn start(admin: &str, hop: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_links"));
    command.args(["--admin", admin, "--http", hop]).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn it_says_where_its_links_are_and_ends_on_sigterm() {
    let mut links = start("127.0.0.1:0", "->redis=127.0.0.1:0=127.0.0.1:1");
    let mut lines = BufReader::new(links.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("links: ->redis on 127.0.0.1:"));
    assert!(lines.next().unwrap().starts_with("links: ready, admin API on 127.0.0.1:"));
    assert!(Command::new("kill").arg(links.id().to_string()).status().unwrap().success());
    assert!(links.wait().unwrap().success());
}

#[test]
fn a_taken_port_is_one_line_that_names_it_and_its_link() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = start("127.0.0.1:0", &format!("a->b={address}=127.0.0.1:1")).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&address) && said.contains("a->b"), "{said}");
}
