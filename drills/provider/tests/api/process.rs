//! The real binary: killed, stopped, and started where it cannot start.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use testkit::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::setup::{Api, body, new_ledger, setup};

/// Killed when it goes out of scope, so that a test that fails leaves no process behind.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(listen: SocketAddr, ledger: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
    command.args(["--name", "primary", "--listen", &listen.to_string(), "--ledger"]).arg(ledger);
    command.stderr(Stdio::piped());
    command
}

async fn launch(ledger: &Path) -> (Process, Api) {
    // Free a moment ago; the binary has no way to tell which port it got.
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let process = Process(command(addr, ledger).stderr(Stdio::null()).spawn().unwrap());
    let api = Api::at(format!("http://{addr}"));
    eventually("the provider", async || api.client.get(api.url("/healthz")).send().await.ok()).await;
    (process, api)
}

fn refused(mut command: Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    stderr
}

#[tokio::test]
async fn a_killed_provider_forgets_nothing_that_it_answered() {
    let ledger = new_ledger();
    let (mut process, api) = launch(&ledger).await;
    let charge = api.charge("before", "tok_approve").await;
    assert_eq!(api.refund(&charge.id, "r", 100).await.status(), 200);
    let load: Vec<_> = (0..20)
        .map(|worker| {
            let api = api.clone();
            tokio::spawn(async move {
                let mut answered = Vec::new();
                for n in 0.. {
                    let key = format!("w{worker}-{n}");
                    match api.try_charge(&key, "tok_approve").await {
                        Ok(response) if response.status() == 200 => answered.push(key),
                        _ => break,
                    }
                }
                answered
            })
        })
        .collect();
    eventually("some load", async || (api.ledger().await.charges.len() > 50).then_some(())).await;
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let mut answered = Vec::new();
    for worker in load {
        answered.extend(worker.await.unwrap());
    }
    assert!(answered.len() > 20, "the kill came during the load");
    // What a kill in the middle of a write leaves.
    fs::OpenOptions::new().append(true).open(&ledger).unwrap().write_all(b"{\"kind\":\"charge\",\"id").unwrap();

    let (_process, api) = launch(&ledger).await;
    let now = api.ledger().await;
    for key in &answered {
        assert_eq!(now.charges.iter().filter(|charge| charge.key == *key).count(), 1, "{key}");
    }
    assert_eq!(now.refunds.len(), 1);
    assert_eq!(api.charge("before", "tok_approve").await, charge, "the key still has its answer");
    assert_eq!(api.try_charge("before", "tok_decline").await.unwrap().status(), 422);
    assert_eq!(api.refund(&charge.id, "r2", 901).await.status(), 422, "900 are left");
    let after = api.charge("after", "tok_approve").await;
    assert_eq!(api.by_key("after").await.unwrap(), after);
    let lines = fs::read_to_string(&ledger).unwrap();
    assert_eq!(lines.lines().count(), now.charges.len() + now.refunds.len() + 1, "the torn line is gone");
}

#[tokio::test]
async fn sigterm_finishes_the_charge_in_hand_and_exits_with_0() {
    let ledger = new_ledger();
    let (mut process, api) = launch(&ledger).await;
    let mut socket = TcpStream::connect(api.base.trim_start_matches("http://")).await.unwrap();
    let json = body("tok_slow_1000").to_string();
    let head = format!(
        "POST /v1/charges HTTP/1.1\r\nhost: p\r\nidempotency-key: slow\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        json.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    // It says so once it has the request in hand.
    socket.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(json.as_bytes()).await.unwrap();
    let pid = process.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"approved\""), "{answer}");
    let status = eventually("the end", async || process.0.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
    assert!(fs::read_to_string(&ledger).unwrap().contains("\"slow\""));
}

#[tokio::test]
async fn the_health_check_succeeds_while_the_provider_answers_and_fails_once_it_is_gone() {
    let (process, api) = launch(&new_ledger()).await;
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        command.args(["healthcheck", api.base.trim_start_matches("http://")]).stderr(Stdio::piped());
        command
    };
    assert!(check().status().unwrap().success());
    drop(process);
    let stderr = refused(check());
    assert!(stderr.contains("/healthz"), "{stderr}");
}

#[tokio::test]
async fn a_taken_port_is_one_line_that_names_it() {
    let it = setup().await;
    let stderr = refused(command(it.provider.addr, &new_ledger()));
    assert!(stderr.contains(&format!("cannot listen on {}", it.provider.addr)), "{stderr}");
}

#[tokio::test]
async fn a_ledger_that_cannot_be_used_is_one_line_that_names_it() {
    let any = "127.0.0.1:0".parse().unwrap();

    let folder = new_ledger();
    fs::create_dir_all(&folder).unwrap();
    let stderr = refused(command(any, &folder));
    assert!(stderr.contains(&format!("cannot open the ledger {}", folder.display())), "{stderr}");

    let below_a_file = new_ledger();
    fs::create_dir_all(below_a_file.parent().unwrap()).unwrap();
    fs::write(&below_a_file, "").unwrap();
    let below_a_file = below_a_file.join("ledger.jsonl");
    let stderr = refused(command(any, &below_a_file));
    assert!(stderr.contains(&below_a_file.display().to_string()), "{stderr}");

    let damaged = new_ledger();
    fs::create_dir_all(damaged.parent().unwrap()).unwrap();
    fs::write(&damaged, "nonsense\n{}\n").unwrap();
    let stderr = refused(command(any, &damaged));
    assert!(stderr.contains(&format!("{} is damaged in line 1", damaged.display())), "{stderr}");

    let in_use = new_ledger();
    let (_process, _) = launch(&in_use).await;
    let stderr = refused(command(any, &in_use));
    assert!(stderr.contains(&format!("{} is in use by another process", in_use.display())), "{stderr}");
}
