use std::time::Duration;

use serde_json::{Value, json};

use super::{
    super::exposition::Samples,
    look::{Condition, Look, WANTED},
    *,
};

fn look(seconds: u64, metrics: &str) -> Look {
    let state = json!({
        "build": "1.2.3",
        "rules": {"version": 7, "origin": "console"},
        "guards": {"degrade": {"recommendation": "live", "coupon": "pending", "payment": "on"}},
    });
    let (at, samples) = (Duration::from_secs(seconds), Samples::read(metrics, WANTED));
    Look { at, condition: Condition::Up, samples, state }
}

fn seen(views: &[View<'_>], beside: &Beside) -> Value {
    serde_json::to_value(Snapshot::of(DateTime::UNIX_EPOCH, views, beside)).unwrap()
}

fn view<'a>(service: &'a str, instance: &'a str, earlier: &'a Look, later: &'a Look) -> View<'a> {
    View { service, instance, earlier: Some(earlier), later: Some(later) }
}

#[test]
fn an_instance_is_shown_with_what_it_did_between_two_looks() {
    let metrics = |ok: u32, failed: u32, refused: u32| {
        format!(
            "http_requests_total{{service=\"order\",route=\"/v1/orders\",method=\"POST\",status=\"201\"}} {ok}\n\
             http_requests_total{{service=\"order\",route=\"/v1/orders\",method=\"POST\",status=\"503\"}} {failed}\n\
             http_requests_total{{service=\"order\",route=\"/v1/orders\",method=\"POST\",status=\"429\"}} {refused}\n\
             http_request_duration_seconds_bucket{{route=\"/v1/orders\",le=\"0.01\"}} {ok}\n\
             http_request_duration_seconds_bucket{{route=\"/v1/orders\",le=\"0.1\"}} {ok}\n\
             http_request_duration_seconds_bucket{{route=\"/v1/orders\",le=\"+Inf\"}} {ok}\n\
             stability_rate_limited_total{{mechanism=\"rate_limit.user\"}} {refused}\n\
             stability_rate_limited_total{{mechanism=\"in_flight\"}} {failed}\n\
             stability_rate_limited_total{{mechanism=\"outbound\",downstream=\"payment\"}} 99\n\
             http_inflight_requests 3\nhttp_inflight_limit 300\nprocess_resident_memory_bytes 20000000\n\
             db_pool_connections{{state=\"in_use\"}} 2\ndb_pool_connections{{state=\"idle\"}} 3\n\
             db_pool_connections_max 5\n"
        )
    };
    let (earlier, later) = (look(10, &metrics(100, 0, 0)), look(15, &metrics(600, 5, 10)));
    let shown = seen(&[view("order", "order-0", &earlier, &later)], &Beside::default());
    assert_eq!(shown["warming_up"], false);
    assert_eq!(
        shown["services"][0],
        json!({
            "service": "order", "instance": "order-0", "state": "up", "reason": null, "build": "1.2.3",
            "rules": {"version": 7, "origin": "console"}, "in_flight": 3, "in_flight_cap": 300, "rate": 103.0,
            "refused_rate": 3.0, "error_rate": 0.0, "p50_ms": 5.0, "p99_ms": 9.9, "db": {"used": 2, "max": 5},
            "memory_bytes": 20_000_000
        })
    );
    let refused = shown["refused"].as_array().unwrap();
    assert_eq!(
        refused[..],
        [json!({"mechanism": "rate_limit.user", "rate": 2.0}), json!({"mechanism": "in_flight", "rate": 1.0})]
    );
}

#[test]
fn one_look_shows_how_things_stand_and_no_rate() {
    let only = look(
        10,
        "http_inflight_requests 3\nhttp_requests_total{status=\"500\"} 7\npayment_reviews 2\n\
                         payment_refund_reviews 1\n",
    );
    let shown = seen(
        &[View { service: "payment", instance: "payment-0", earlier: None, later: Some(&only) }],
        &Beside::default(),
    );
    assert_eq!(shown["warming_up"], true);
    let instance = &shown["services"][0];
    assert_eq!(
        (&instance["in_flight"], &instance["rate"], &instance["p99_ms"]),
        (&json!(3), &json!(0.0), &Value::Null)
    );
    assert_eq!(shown["reviews"], 3);
    assert!(!shown.to_string().contains("-0.0"), "{shown}");
}

#[test]
fn what_cannot_be_reached_is_shown_as_that_and_keeps_its_arrows() {
    let before = look(10, "http_requests_total{status=\"200\"} 7\n");
    let gone = Look::unreachable(Duration::from_secs(11), "cannot be connected to");
    let starting = Look { condition: Condition::NotReady("starting".to_owned()), ..look(11, "") };
    let shown = seen(
        &[
            view("payment", "payment-0", &before, &gone),
            view("coupon", "coupon-0", &before, &starting),
            View { service: "inventory", instance: "inventory-0", earlier: None, later: None },
        ],
        &Beside::default(),
    );
    let states: Vec<_> = shown["services"].as_array().unwrap().iter().map(|s| (&s["state"], &s["reason"])).collect();
    assert_eq!(
        states,
        [
            (&json!("unreachable"), &json!("cannot be connected to")),
            (&json!("not_ready"), &json!("starting")),
            (&json!("unreachable"), &json!("not asked yet")),
        ]
    );
    assert_eq!((&shown["services"][0]["rules"], &shown["services"][0]["memory_bytes"]), (&Value::Null, &Value::Null));
    let hop = &shown["hops"][0];
    assert_eq!(
        (&hop["from"], &hop["to"], &hop["breaker"], &hop["cap"]),
        (&json!("payment"), &json!("provider"), &Value::Null, &Value::Null)
    );
}

#[test]
fn an_arrow_shows_what_the_guards_of_the_call_say_and_the_faults_on_its_link() {
    let metrics = |calls: u32, rejected: u32| {
        format!(
            "downstream_request_duration_seconds_count{{downstream=\"payment\",outcome=\"answered\"}} {calls}\n\
             downstream_request_duration_seconds_count{{downstream=\"payment_status\",outcome=\"answered\"}} 77\n\
             downstream_request_duration_seconds_bucket{{downstream=\"payment\",outcome=\"answered\",le=\"1\"}} {calls}\n\
             downstream_request_duration_seconds_bucket{{downstream=\"payment\",outcome=\"answered\",le=\"+Inf\"}} {calls}\n\
             stability_breaker_state{{downstream=\"payment\"}} 3\nstability_ramp_percent{{downstream=\"payment\"}} 30\n\
             stability_breaker_open_total{{downstream=\"payment\"}} 2\n\
             stability_breaker_failure_ratio{{downstream=\"payment\"}} 0.125\n\
             stability_breaker_rejected_total{{downstream=\"payment\"}} {rejected}\n\
             stability_bulkhead_rejected_total{{downstream=\"payment\"}} {rejected}\n\
             stability_bulkhead_in_flight{{downstream=\"payment\"}} 4\nstability_bulkhead_cap{{downstream=\"payment\"}} 40\n\
             stability_bulkhead_waiting{{downstream=\"payment\"}} 1\n\
             stability_retry_total{{downstream=\"payment\",outcome=\"succeeded\"}} {rejected}\n\
             stability_retry_total{{downstream=\"payment\",outcome=\"budget_spent\"}} 50\n\
             stability_breaker_state{{downstream=\"coupon\"}} 1\nstability_ramp_percent{{downstream=\"coupon\"}} 0\n"
        )
    };
    let (earlier, later) = (look(0, &metrics(100, 0)), look(5, &metrics(200, 10)));
    let beside = Beside {
        dead_letters: Some(3),
        faults: Some(vec![
            ("order->payment".to_owned(), "latency-7".to_owned()),
            ("->redis".to_owned(), "hang-8".to_owned()),
        ]),
    };
    let shown = seen(&[view("order", "order-0", &earlier, &later)], &beside);
    assert_eq!((&shown["links"], &shown["dead_letters"]), (&json!(true), &json!(3)));
    let to = |name: &str| shown["hops"].as_array().unwrap().iter().find(|hop| hop["to"] == name).unwrap().clone();
    assert_eq!(
        to("payment"),
        json!({
            "from": "order", "to": "payment", "instance": null, "core": true, "rate": 20.0, "p99_ms": 990.0,
            "in_flight": 4, "cap": 40, "waiting": 1, "breaker": "ramping", "ramp_percent": 30, "failure_ratio": 0.13,
            "opened_total": 2, "retry_rate": 2.0, "rejected_rate": 4.0, "faults": ["latency-7"]
        })
    );
    assert_eq!((&to("coupon")["breaker"], &to("coupon")["ramp_percent"]), (&json!("open"), &Value::Null));
    assert_eq!((&to("coupon")["core"], &to("inventory")["core"]), (&json!(false), &json!(true)));
    assert_eq!(to("inventory")["breaker"], Value::Null, "nothing is made up");
    let refused: Vec<_> = shown["refused"].as_array().unwrap().iter().map(|r| r["mechanism"].clone()).collect();
    assert_eq!(refused, ["breaker.payment", "bulkhead.payment"]);
}

#[test]
fn of_several_instances_each_has_its_arrows_and_what_they_share_is_taken_once() {
    let first = "orders_open{status=\"payment_pending\"} 4\norders_total{status=\"confirmed\",reason=\"none\"} 10\n\
                 payment_pending 4\npayment_pending_oldest_age_seconds 12.5\noutbox_backlog 7\n\
                 outbox_oldest_age_seconds 1.5\nkafka_consumer_lag{group=\"order\",topic=\"payments\"} 2\n\
                 orders_entered_total{status=\"confirmed\"} 10\n";
    let second = "orders_open{status=\"payment_pending\"} 3\norders_total{status=\"confirmed\",reason=\"none\"} 5\n\
                  payment_pending 3\noutbox_backlog 0\nkafka_consumer_lag{group=\"order\",topic=\"payments\"} 5\n\
                  orders_entered_total{status=\"confirmed\"} 5\n";
    let (nothing, one, two) = (look(0, ""), look(5, first), look(5, second));
    let views = [view("order", "order-0", &nothing, &one), view("order", "order-1", &nothing, &two)];
    let shown = seen(&views, &Beside::default());
    let stage =
        |status: &str| shown["funnel"].as_array().unwrap().iter().find(|s| s["status"] == status).unwrap().clone();
    assert_eq!(stage("payment_pending")["total"], 4, "both look at one database");
    assert_eq!(stage("confirmed"), json!({"status": "confirmed", "total": 15, "rate": 3.0}));
    assert_eq!(shown["funnel"].as_array().unwrap().len(), contracts::order::OrderStatus::ALL.len());
    assert_eq!(shown["pending"], json!({"count": 4, "oldest_seconds": 12.5}));
    assert_eq!(shown["outbox"], json!([{"service": "order", "backlog": 7, "oldest_seconds": 1.5}]));
    assert_eq!(shown["lag"], json!([{"topic": "payments", "consumer": "order", "lag": 7}]));
    let instances: Vec<_> =
        shown["hops"].as_array().unwrap().iter().filter(|h| h["to"] == "payment").map(|h| &h["instance"]).collect();
    assert_eq!(instances, [&json!("order-0"), &json!("order-1")]);
}

#[test]
fn a_feature_is_as_degraded_as_it_is_anywhere() {
    let hits = |n: u32| format!("stability_degrade_hit_total{{feature=\"coupon\"}} {n}\n");
    let (earlier, later) = (look(0, &hits(0)), look(5, &hits(10)));
    let mut normal = look(5, "");
    normal.state["guards"]["degrade"]["coupon"] = json!("on");
    let views = [view("order", "order-0", &earlier, &later), view("order", "order-1", &earlier, &normal)];
    let shown = seen(&views, &Beside::default());
    let feature =
        |name: &str| shown["degraded"].as_array().unwrap().iter().find(|f| f["feature"] == name).unwrap().clone();
    assert_eq!(feature("coupon"), json!({"feature": "coupon", "level": "pending", "normal": false, "hit_rate": 2.0}));
    assert_eq!(feature("admission"), json!({"feature": "admission", "level": "all", "normal": true, "hit_rate": 0.0}));
}

#[test]
fn with_nobody_to_look_at_there_is_a_snapshot_too() {
    let shown = seen(&[], &Beside::default());
    assert_eq!(
        (&shown["warming_up"], &shown["links"], &shown["dead_letters"]),
        (&json!(true), &json!(false), &Value::Null)
    );
    assert_eq!(shown["pending"], json!({"count": 0, "oldest_seconds": null}));
}
