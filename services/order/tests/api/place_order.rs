use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use contracts::{UserId, headers};
use rules::Rules;
use serde_json::json;
use testkit::{Reply, Stub, eventually, stub::refusing_url, user_token};
use tokio::sync::Semaphore;

use crate::world::{World, answer, patient, problem, stock_held, tea, tea_with_coupon, undeferred};

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_confirmed_and_tells_the_others() {
    let world = World::start().await;
    let response = world.request("k", &tea()).send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let (status, order) = answer(response).await;
    assert_eq!(status, 201, "{order}");
    assert_eq!(location, format!("/v1/orders/{}", order["id"].as_str().unwrap()));
    assert_eq!(order["status"], "confirmed");
    assert_eq!(order["total_minor"], 1_000);
    assert_eq!(order["items"][0], json!({"sku": "TEA", "name": "Tea", "quantity": 2, "unit_price_minor": 500}));
    assert_eq!(order["payment"]["state"], "approved");
    assert_eq!(order["payment"]["channel"], "primary");
    assert_eq!(order["coupon"], json!({"code": null, "state": "none"}));
    assert_eq!(world.events().await, ["order.confirmed"]);

    let (_, history) = world.get(&format!("{location}/history")).await;
    let steps: Vec<_> = history.as_array().unwrap().iter().map(|h| h["event"].as_str().unwrap()).collect();
    assert_eq!(steps, ["submitted", "stock_held", "charge_intended", "approved"]);
    // What the siblings were asked.
    let charge = &world.payment.seen_at("PUT", "/v1/payments/")[0];
    assert_eq!(charge.body["amount_minor"], 1_000);
    assert_eq!(charge.body["order_id"], order["id"]);
    assert!(charge.header(headers::EXPECTED_TIMEOUT_MS).unwrap().parse::<u64>().unwrap() <= 5_000);
    assert!(charge.header(headers::TRACEPARENT).is_some() && charge.header(headers::RETRY_BUDGET).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_and_the_trace_id_travel_on() {
    let world = World::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = world
        .request("k", &tea())
        .header(headers::REQUEST_ID, "req-1")
        .header(headers::TRACEPARENT, format!("00-{trace}-00f067aa0ba902b7-01"));
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()[headers::REQUEST_ID], "req-1");
    let charge = &world.payment.seen_at("PUT", "/v1/payments/")[0];
    assert_eq!(charge.header(headers::REQUEST_ID), Some("req-1"));
    assert!(charge.header(headers::TRACEPARENT).unwrap().contains(trace));
    let event: String = sqlx::query_scalar("select payload from outbox").fetch_one(world.db.pool()).await.unwrap();
    assert!(event.contains(trace), "{event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coupon_takes_its_discount_off() {
    let world = World::start().await;
    let (status, order) = world.place("k", &tea_with_coupon()).await;
    assert_eq!((status, &order["total_minor"], &order["discount_minor"]), (201, &json!(950), &json!(50)));
    assert_eq!(order["coupon"], json!({"code": "WELCOME10", "state": "applied"}));
    assert_eq!(world.payment.seen()[0].body["amount_minor"], 950);
}

#[tokio::test(flavor = "multi_thread")]
async fn business_refusals_are_final_and_release_what_may_be_held() {
    let world = World::start().await;
    let cases =
        [("out-of-stock", 409, json!({"sku": "TEA", "available": 1})), ("unknown-sku", 422, json!({"sku": "TEA"}))];
    for (slug, status, members) in cases {
        let told = members.clone();
        world.inventory.behave(move |_| problem(slug, status, members.clone()));
        let (got, body) = world.place(slug, &tea()).await;
        assert_eq!((got, body["type"].as_str().unwrap()), (status, format!("urn:problem:{slug}").as_str()));
        assert_eq!(body["sku"], told["sku"]);
        assert!(body["order_id"].is_string());
    }
    world.inventory.behave(stock_held);
    for (slug, status) in
        [("coupon-expired", 409), ("coupon-exhausted", 409), ("coupon-already-used", 409), ("coupon-unknown", 422)]
    {
        world.coupon.behave(move |_| problem(slug, status, json!({})));
        let (got, body) = world.place(slug, &tea_with_coupon()).await;
        assert_eq!((got, body["type"].as_str().unwrap()), (status, format!("urn:problem:{slug}").as_str()));
    }
    world.payment.behave(|_| Reply::Json(200, json!({"state": "declined", "decline_code": "insufficient_funds"})));
    let (status, body) = world.place("declined", &tea()).await;
    assert_eq!((status, body["decline_code"].as_str()), (402, Some("insufficient_funds")));
    assert_eq!(world.events().await, ["order.rejected"; 7]);
    assert_eq!(world.count("select count(*) from orders where status = 'rejected'").await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_without_an_answer_that_decides_is_pending_and_never_a_guess() {
    let world = World::start().await;
    let endings = [
        ("closed", Reply::Close),
        ("truncated", Reply::Truncated),
        ("unreadable", Reply::Raw(200, "yes".into())),
        ("broken", Reply::Raw(500, "oops".into())),
        ("no-storage", problem("storage-unavailable", 503, json!({}))),
        ("overtaxed-gateway", Reply::Raw(503, "busy".into())),
        ("unknown", Reply::Json(202, json!({"state": "unknown"}))),
    ];
    for (name, ending) in endings {
        world.payment.behave(move |_| ending.clone());
        let response = world.request(name, &tea()).send().await.unwrap();
        assert!(response.headers().contains_key("retry-after"), "{name}");
        let (status, order) = answer(response).await;
        assert_eq!(status, 202, "{name}: {order}");
        assert_eq!(order["status"], "payment_pending");
        assert_eq!(order["payment"]["state"], "unknown");
        let id = order["payment"]["attempt_id"].as_str().unwrap();
        assert_eq!(world.payment.seen_at("PUT", &format!("/v1/payments/{id}")).len(), 1, "{name} was sent again");
    }
    assert_eq!(world.events().await, ["payment.unknown"; 7]);
}

// Trace 6.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_hangs_is_pending_within_the_callers_time() {
    let world = World::start().await;
    world.payment.behave(|_| Reply::Hang);
    let request = world.request("k", &tea()).header(headers::EXPECTED_TIMEOUT_MS, "500");
    // Our own limit for a charge is five seconds here.
    let answered = tokio::time::timeout(std::time::Duration::from_secs(4), request.send()).await;
    let (status, order) = answer(answered.unwrap().unwrap()).await;
    assert_eq!((status, &order["status"]), (202, &json!("payment_pending")));
    assert_eq!(world.payment.seen().len(), 1);
    let told: u64 = world.payment.seen()[0].header(headers::EXPECTED_TIMEOUT_MS).unwrap().parse().unwrap();
    assert!(told < 500, "payment was given {told} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_too_late_is_refused_and_leaves_no_trace() {
    let world = World::start().await;
    let request = world.request("k", &tea()).header(headers::EXPECTED_TIMEOUT_MS, "5");
    let (status, body) = answer(request.send().await.unwrap()).await;
    assert_eq!((status, &body["type"]), (504, &json!("urn:problem:deadline-exceeded")));
    assert_eq!(body["mechanism"], "deadline");
    assert!(world.inventory.seen().is_empty());
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
}

// Trace 24.
#[tokio::test(flavor = "multi_thread")]
async fn out_of_time_before_the_charge_rejects_the_order_and_frees_the_key() {
    let mut rules = patient();
    // More than the request brings: the charge is not begun.
    rules.route.entry(Rules::CHARGE.to_owned()).or_default().min_useful_budget = std::time::Duration::from_secs(60);
    let world = World::with_rules(rules).await;
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["type"]), (504, &json!("urn:problem:deadline-exceeded")));
    assert!(world.payment.seen().is_empty());
    assert_eq!(world.count("select count(*) from orders where status_reason = 'expired'").await, 1);
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
    // The retry that this answer invites does not meet its own hold.
    assert_eq!(world.inventory.seen().last().unwrap().path.rsplit('/').next(), Some("release"));
}

// Traces 9 and 24.
#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_was_not_dispatched_is_fenced_before_the_order_is_refused() {
    let world = World::with_rules(undeferred()).await;
    world.payment.behave(|seen| match seen.method.as_str() {
        "PUT" => problem("payment-not-dispatched", 503, json!({"reason": "connect_failed"})),
        _ => Reply::Json(200, json!({"state": "fenced"})),
    });
    let response = world.request("k", &tea()).send().await.unwrap();
    assert!(response.headers().contains_key("retry-after"));
    let (status, body) = answer(response).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:payment-unavailable")));
    assert_eq!(body["retryable"], true);
    let calls: Vec<String> = world.payment.seen().into_iter().map(|s| s.method).collect();
    assert_eq!(calls, ["PUT", "POST"]);
    assert_eq!(world.inventory.seen().last().unwrap().path.rsplit('/').next(), Some("release"));
    // The same key starts anew, with another order.
    world.payment.behave(crate::world::approved);
    let (status, order) = world.place("k", &tea()).await;
    assert_eq!(status, 201);
    assert_ne!(order["id"], body["order_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_from_the_fence_the_order_is_pending() {
    let world = World::with_rules(undeferred()).await;
    world.payment.behave(|seen| match seen.method.as_str() {
        "PUT" => problem("payment-not-dispatched", 503, json!({"reason": "breaker_open"})),
        _ => Reply::Close,
    });
    let (status, order) = world.place("k", &tea()).await;
    assert_eq!((status, &order["status"]), (202, &json!("payment_pending")));
    assert_eq!(world.count("select count(*) from idempotency_keys where outcome = 202").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_service_that_cannot_be_reached_refuses_without_a_fence() {
    let (inventory, payment) = (Stub::start(stock_held).await, Stub::start(|_| Reply::Close).await);
    let url = inventory.url();
    let world = World::with(undeferred(), url, refusing_url(), inventory, payment).await;
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:payment-unavailable")));
    assert_eq!(body["mechanism"], "connect.payment");
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
    assert_eq!(world.inventory.seen_at("POST", "/v1/reservations/").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_refuses_orders_and_leaves_fences_alone() {
    let mut rules = Rules::default();
    rules.downstream.payment.breaker.consecutive_failures = 1;
    rules.degrade.defer_max_minor = 0;
    let world = World::with_rules(rules).await;
    let callees = async || {
        let state = world.app.client.get(world.app.admin_url("/internal/state")).send().await.unwrap();
        answer(state).await.1["state"]["downstream"].clone()
    };
    world.payment.behave(|seen| match seen.method.as_str() {
        "PUT" => problem("payment-not-dispatched", 503, json!({"reason": "connect_failed"})),
        _ => Reply::Json(200, json!({"state": "fenced"})),
    });
    assert_eq!(world.place("fenced", &tea()).await.0, 503);
    let seen = callees().await;
    assert_eq!(seen["payment"]["breaker"]["state"], "closed", "the provider's trouble is no fault of payment's");
    assert_eq!(
        (&seen["payment"]["breaker"]["calls"], &seen["payment_status"]["breaker"]["calls"]),
        (&json!(1), &json!(1))
    );

    world.payment.behave(|_| Reply::Close);
    assert_eq!(world.place("in-doubt", &tea()).await.0, 202);
    let charges = world.payment.seen_at("PUT", "/").len();
    let (status, body) = world.place("refused", &tea()).await;
    assert_eq!((status, &body["mechanism"]), (503, &json!("breaker.payment")));
    assert_eq!(world.payment.seen_at("PUT", "/").len(), charges, "nothing was sent");
    let seen = callees().await;
    assert_eq!(seen["payment"]["breaker"]["state"], "open");
    assert_eq!(seen["payment_status"]["breaker"]["state"], "closed");
    for callee in ["inventory", "payment", "payment_status", "coupon", "recommendation"] {
        let seen = &seen[callee];
        assert!(seen["bulkhead"]["cap"].is_u64() && seen["retry_budget"]["available"].is_u64(), "{callee}: {seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_whose_answer_was_lost_is_asked_for_again_and_a_charge_is_not() {
    let world = World::start().await;
    let first = std::sync::atomic::AtomicBool::new(true);
    world.inventory.behave(move |seen| {
        if first.swap(false, std::sync::atomic::Ordering::Relaxed) { Reply::Close } else { stock_held(seen) }
    });
    world.payment.behave(|_| Reply::Close);
    assert_eq!(world.place("k", &tea()).await.0, 202);
    assert_eq!(world.inventory.seen_at("PUT", "/v1/reservations/").len(), 2);
    assert_eq!(world.payment.seen_at("PUT", "/v1/payments/").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_inventory_refuses_the_order_and_frees_the_key() {
    let (inventory, payment) = (Stub::start(stock_held).await, Stub::start(|_| Reply::Close).await);
    let url = payment.url();
    let world = World::with(patient(), refusing_url(), url, inventory, payment).await;
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:inventory-unavailable")));
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
    assert_eq!(world.events().await, ["order.rejected"]);
}

// The reservation may stand although no answer came.
#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_without_an_answer_is_told_to_release() {
    let world = World::start().await;
    world.inventory.behave(|seen| if seen.method == "PUT" { Reply::Close } else { stock_held(seen) });
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:inventory-unavailable")));
    assert_eq!(world.inventory.seen_at("POST", "/v1/reservations/").len(), 1);
    assert_eq!(world.events().await, ["order.rejected"]);
}

// Trace 24, where the release that goes before the 503 fails as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_meets_its_own_hold_is_told_to_come_again_and_not_that_all_is_sold() {
    let world = World::start().await;
    world.inventory.behave(|_| Reply::Close);
    assert_eq!(world.place("k", &tea()).await.0, 503);
    // What inventory holds for the first order is the last there is.
    let sold = || problem("out-of-stock", 409, json!({}));
    world.inventory.behave(move |seen| if seen.method == "PUT" { sold() } else { Reply::Close });
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:inventory-unavailable")), "{body}");
    assert_eq!(body["retryable"], json!(true));
    // Another user is told what is so.
    let stranger = world.app.post("/v1/orders").bearer_auth(user_token(UserId::generate())).json(&tea());
    let (status, _) = answer(stranger.header(headers::IDEMPOTENCY_KEY, "k").send().await.unwrap()).await;
    assert_eq!(status, 409);
    // Inventory lets go again: of what is in the way, and then there is some.
    let let_go = Arc::new(AtomicBool::new(false));
    world.inventory.behave(move |seen| match seen.method.as_str() {
        "PUT" if !let_go.load(Ordering::SeqCst) => sold(),
        "POST" => {
            let_go.store(true, Ordering::SeqCst);
            stock_held(seen)
        }
        _ => stock_held(seen),
    });
    let (status, body) = world.place("k", &tea()).await;
    assert_eq!((status, &body["status"]), (201, &json!("confirmed")), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_inventory_confirms_before_the_refusal_is_known_of() {
    let world = World::start().await;
    world.inventory.behave(|seen| if seen.method == "PUT" { Reply::Close } else { stock_held(seen) });
    assert_eq!(world.place("k", &tea()).await.0, 503);
    eventually("the release is on record", async || {
        (world.count("select count(*) from orders where stock_acknowledged").await == 1).then_some(())
    })
    .await;
    world.inventory.behave(|_| problem("out-of-stock", 409, json!({})));
    assert_eq!(world.place("k", &tea()).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_does_not_stop_the_workflow() {
    use tokio::io::AsyncWriteExt;
    let world = World::start().await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    world.payment.behave(move |seen| Reply::Held(held.clone(), Box::new(crate::world::approved(seen))));
    let body = tea().to_string();
    let request = format!(
        "POST /v1/orders HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        user_token(world.user),
        body.len()
    );
    let mut socket = tokio::net::TcpStream::connect(world.app.running.api_addr()).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    eventually("the charge is under way", || async { world.payment.seen().first().map(drop) }).await;
    // A reset, which drops the handler; a FIN alone would not.
    socket.set_zero_linger().unwrap();
    drop(socket);
    go.add_permits(1);
    eventually("the order is confirmed", async || {
        let confirmed = world.count("select count(*) from orders where status = 'confirmed'").await;
        (confirmed == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_database_the_service_says_so_and_is_not_ready() {
    let world = World::start().await;
    let (status, order) = world.place("before", &tea()).await;
    assert_eq!(status, 201);
    world.cut_database().await;
    let path = format!("/v1/orders/{}", order["id"].as_str().unwrap());
    for (status, body) in [world.place("k", &tea()).await, world.get(&path).await, world.get("/v1/orders").await] {
        assert_eq!((status, &body["type"]), (503, &json!("urn:problem:storage-unavailable")));
        assert_eq!(body["retryable"], true);
    }
    let ready = world.app.client.get(world.app.admin_url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert_eq!(world.payment.seen().len(), 1);
}

// The fence's event may come back through the broker before the fence's own answer does.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_comes_by_event_releases_the_stock_as_well() {
    let world = World::with_rules(undeferred()).await;
    let go = Arc::new(Semaphore::new(0));
    let held = go.clone();
    world.payment.behave(move |seen| match seen.method.as_str() {
        "PUT" => problem("payment-not-dispatched", 503, json!({"reason": "breaker_open"})),
        _ => Reply::Held(held.clone(), Box::new(Reply::Json(200, json!({"state": "fenced"})))),
    });
    let first = tokio::spawn(world.request("k", &tea()).send());
    let fence = eventually("the fence is asked for", || async {
        world.payment.seen_at("POST", "/v1/payments/").first().cloned()
    })
    .await;
    let (order_id, attempt_id) = world.order_and_attempt().await;
    assert!(fence.path.contains(&attempt_id.to_string()));
    world.say(&contracts::event::PaymentFenced { order_id, attempt_id }).await;
    eventually("the event rejects the order", async || {
        (world.count("select count(*) from orders where status = 'rejected'").await == 1).then_some(())
    })
    .await;
    eventually("the stock is released by call", || async {
        world.inventory.seen_at("POST", "/v1/reservations/").first().map(drop)
    })
    .await;
    go.add_permits(1);
    let (status, body) = answer(first.await.unwrap().unwrap()).await;
    assert_eq!((status, &body["type"]), (503, &json!("urn:problem:payment-unavailable")));
    assert_eq!(world.count("select count(*) from idempotency_keys").await, 0);
}
