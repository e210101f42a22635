//! What is unknown is found out, though what would find it out is away for a while.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{
    audit,
    system::{System, WITHOUT_BREAKERS, is_full, turn},
    unknown::{charges, placed},
};

const PAYMENT: [&str; 2] = ["payment:0", "payment:1"];
const ORDER: [&str; 2] = ["order:0", "order:1"];

/// A lost reply and a lost request, of which nobody is told.
async fn two_unknown(system: &System) -> [String; 2] {
    system.provider_behaves(&json!({"webhook": "off"})).await;
    let (reply, request) = tokio::join!(placed(system, "tok_lost_reply"), placed(system, "tok_lost_request"));
    assert_eq!((reply.0, request.0), (202, 202));
    [reply.1, request.1]
}

async fn are_found_out(system: &System, [reply, request]: [String; 2]) {
    system.shop.once(&reply, "confirmed").await;
    let rejected = system.shop.once(&request, "rejected").await;
    assert_eq!(rejected["status_reason"], "payment_not_found", "{rejected}");
    assert_eq!((charges(system, &reply).await, charges(system, &request).await), (1, 0));
    system.provider_behaves(&json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn though_every_process_of_order_and_payment_dies_in_between() {
    let system = turn().await;
    system.rule(85, WITHOUT_BREAKERS).await;
    let both = [ORDER, PAYMENT].concat();
    let alone: &[&[&str]] = if is_full() { &[&ORDER, &PAYMENT] } else { &[] };
    for victims in alone.iter().copied().chain([&both[..]]) {
        let unknown = two_unknown(&system).await;
        for victim in victims {
            system.kill(victim);
        }
        for victim in victims {
            system.restart(victim, &[]).await;
        }
        are_found_out(&system, unknown).await;
    }
    system.rule(86, "").await;
    audit::clean(&system).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn though_kafka_is_away_from_before_they_were_placed() {
    let system = turn().await;
    let away = Duration::from_secs(if is_full() { 30 } else { 5 });
    let kafka = system.status()["stores"]["kafka"]["pid"].clone();
    system.signal(&kafka, "-STOP");
    let unknown = two_unknown(&system).await;
    sleep(away).await;
    system.signal(&kafka, "-CONT");
    are_found_out(&system, unknown).await;
    audit::clean(&system).await;
}
