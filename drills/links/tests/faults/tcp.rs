//! Each fault on a TCP hop.

use std::{io::ErrorKind, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use crate::setup::{FOR_EVER_MS, TCP, echo, read_all, world};

#[tokio::test]
async fn bytes_and_ends_pass_unchanged() {
    let it = world().await;
    let mut stream = it.connect(TCP).await;
    let much: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    let (mut from, mut to) = stream.split();
    let sent = much.clone();
    let (written, read) = tokio::join!(
        async {
            to.write_all(&sent).await.unwrap();
            // The other half still listens.
            to.shutdown().await
        },
        async {
            let mut all = Vec::new();
            from.read_to_end(&mut all).await.map(|_| all)
        }
    );
    written.unwrap();
    assert!(read.unwrap() == much);
}

#[tokio::test]
async fn latency_holds_what_comes_back_until_its_time_or_the_end_of_the_fault() {
    let it = world().await;
    let mut stream = it.connect(TCP).await;
    let id = it.fault(json!({"link": TCP, "kind": "latency", "latency_ms": 30})).await;
    let begun = Instant::now();
    echo(&mut stream, b"ping").await;
    assert!(begun.elapsed() >= Duration::from_millis(30));
    it.off(id).await;

    let id = it.fault(json!({"link": TCP, "kind": "latency", "latency_ms": FOR_EVER_MS})).await;
    let held = tokio::spawn(async move { echo(&mut stream, b"ping").await });
    it.until_applied(id, 1).await;
    assert!(!held.is_finished());
    it.off(id).await;
    held.await.unwrap();
}

#[tokio::test]
async fn a_refusal_closes_what_is_open_and_takes_nothing_new() {
    let it = world().await;
    let mut stream = it.connect(TCP).await;
    echo(&mut stream, b"ping").await;
    let id = it.fault(json!({"link": TCP, "kind": "refuse"})).await;
    assert!(read_all(&mut stream).await.unwrap_or_default().is_empty());
    assert_eq!(TcpStream::connect(it.address(TCP)).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    it.until_applied(id, 1).await;
    it.off(id).await;
    echo(&mut it.connect(TCP).await, b"ping").await;
}

#[tokio::test]
async fn a_reset_strikes_at_the_next_bytes() {
    let it = world().await;
    let mut stream = it.connect(TCP).await;
    echo(&mut stream, b"ping").await;
    let id = it.fault(json!({"link": TCP, "kind": "reset"})).await;
    assert_eq!(it.applied(id).await, 0);
    stream.write_all(b"ping").await.unwrap();
    assert_eq!(read_all(&mut stream).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(it.applied(id).await, 1);
}

#[tokio::test]
async fn what_hangs_flows_again_when_the_fault_ends() {
    let it = world().await;
    let mut stream = it.connect(TCP).await;
    let id = it.fault(json!({"link": TCP, "kind": "hang"})).await;
    let held = tokio::spawn(async move { echo(&mut stream, b"ping").await });
    it.until_applied(id, 1).await;
    assert!(!held.is_finished());
    it.off(id).await;
    held.await.unwrap();
}

#[tokio::test]
async fn a_lost_reply_leaves_a_hole_so_the_connection_ends_with_the_fault() {
    let it = world().await;
    let mut stream = it.connect(TCP).await;
    let id = it.fault(json!({"link": TCP, "kind": "lose_reply"})).await;
    stream.write_all(b"commit").await.unwrap();
    it.until_applied(id, 1).await;
    it.off(id).await;
    assert!(read_all(&mut stream).await.unwrap_or_default().is_empty());
}

#[tokio::test]
async fn a_narrow_hop_takes_its_time_and_is_wide_at_once() {
    let it = world().await;
    let mut stream = it.connect(TCP).await;
    let id = it.fault(json!({"link": TCP, "kind": "bandwidth", "bytes_per_second": 20_000})).await;
    let begun = Instant::now();
    echo(&mut stream, &[7; 1_000]).await;
    assert!(begun.elapsed() >= Duration::from_millis(90), "50 ms there and 50 back");
    it.off(id).await;

    let id = it.fault(json!({"link": TCP, "kind": "bandwidth", "bytes_per_second": 1})).await;
    let slow = tokio::spawn(async move { echo(&mut stream, &[7; 100_000]).await });
    it.until_applied(id, 1).await;
    it.off(id).await;
    slow.await.unwrap();
}

#[tokio::test]
async fn a_ratio_is_one_throw_a_connection() {
    let it = world().await;
    let id = it.fault(json!({"link": TCP, "kind": "reset", "ratio": 0.5, "seed": 1})).await;
    let (mut spared, mut struck) = (Vec::new(), 0);
    for _ in 0..20 {
        let mut stream = it.connect(TCP).await;
        stream.write_all(b"a").await.unwrap();
        match stream.read_exact(&mut [0]).await {
            Ok(_) => spared.push(stream),
            Err(_) => struck += 1,
        }
    }
    assert!((4..=16).contains(&struck), "{struck}");
    for stream in &mut spared {
        echo(stream, b"still here").await;
    }
    assert_eq!(it.applied(id).await, struck);
}
