//! Discounts that were promised while this service did not answer: over a broker, and straight into the handlers.

use std::{collections::BTreeSet, time::Duration};

use chrono::Utc;
use contracts::{
    Currency, Event, OrderId, ProblemType, UserId,
    coupon::RedemptionState,
    event::{CompensationDue, CouponCompensate, CouponOutcome, CouponSettled, EventData, OrderCancelled},
    order::StatusReason,
    topic::{self, COMPENSATE},
};
use coupon::{
    events::{Compensations, Orders},
    store::compensations,
};
use durable::outbox::{self, Outbox};
use events::{HandleError, Handler, Outcome, dlq};
use rules::Rules;
use serde_json::Value;
use testkit::{eventually, kafka, kafka::TestBroker};

use crate::till::{Till, patient, redeemed, refused};

fn promised(code: &str) -> CouponCompensate {
    CouponCompensate {
        order_id: OrderId::generate(),
        user_id: UserId::generate(),
        code: code.to_owned(),
        subtotal_minor: 1_000,
        currency: Currency::USD,
    }
}

fn due(promised: &CouponCompensate) -> CompensationDue {
    let CouponCompensate { order_id, user_id, code, subtotal_minor, currency } = promised.clone();
    CompensationDue { order_id, user_id, code, subtotal_minor, currency }
}

fn event(data: &impl EventData) -> Event {
    Event::new(data, 1, None, Utc::now()).unwrap()
}

fn cancelled(order_id: OrderId) -> Event {
    event(&OrderCancelled { order_id, reason: StatusReason::UserCancelled })
}

fn with_delays(delays: [u64; 4]) -> Rules {
    let mut rules = patient();
    rules.compensate.delays = delays.map(Duration::from_millis);
    rules
}

async fn open(delays: [u64; 4]) -> (Till, TestBroker) {
    let broker = kafka::broker(&topic::all()).await.unwrap();
    (Till::open_ruled(broker.config.clone(), with_delays(delays)).await, broker)
}

fn tier(till: &Till, tier: usize) -> Compensations {
    let outbox = Outbox::new(till.database.pool().clone());
    Compensations { database: till.database.clone(), outbox, rules: till.app.rules.clone(), tier }
}

fn orders(till: &Till) -> Orders {
    Orders { database: till.database.clone(), outbox: Outbox::new(till.database.pool().clone()) }
}

/// Says it on the topic of orders; the service's own relay carries it there, as order's would.
async fn say(till: &Till, event: &Event) {
    let mut conn = till.database.pool().acquire().await.unwrap();
    outbox::enqueue(&mut conn, topic::ORDERS, event).await.unwrap();
}

/// What left for a topic about an order.
async fn sent(till: &Till, topic: &str, order: OrderId) -> Vec<Event> {
    let payloads: Vec<String> =
        sqlx::query_scalar("select payload from outbox where topic = $1 and key = $2 order by id")
            .bind(topic)
            .bind(order.to_string())
            .fetch_all(till.database.pool())
            .await
            .unwrap();
    payloads.iter().map(|payload| serde_json::from_str(payload).unwrap()).collect()
}

async fn outcomes(till: &Till, order: OrderId) -> Vec<CouponOutcome> {
    let sent = sent(till, "coupons", order).await;
    sent.iter().map(|event| event.decode::<CouponSettled>().unwrap().unwrap().outcome).collect()
}

async fn settled(till: &Till, order: OrderId) -> CouponOutcome {
    eventually("the compensation is settled", async || outcomes(till, order).await.pop()).await
}

async fn on_manual_list(till: &Till) -> Vec<(String, String)> {
    sqlx::query_as("select order_id::text, reason from manual_compensations order by created_at")
        .fetch_all(till.database.pool())
        .await
        .unwrap()
}

async fn state(till: &Till, order: OrderId) -> RedemptionState {
    redeemed(till.redemption(order).await).await.state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_coupon_is_honoured_exactly_once_however_often_order_asks() {
    let (till, _broker) = open([100, 100, 100, 100]).await;
    let promise = promised("WELCOME10");
    // Order asks again for what it has heard nothing of, with a new event.
    for _ in 0..3 {
        say(&till, &event(&promise)).await;
    }
    eventually("each of them is answered", async || (outcomes(&till, promise.order_id).await.len() == 3).then_some(()))
        .await;
    for outcome in outcomes(&till, promise.order_id).await {
        assert_eq!(outcome, CouponOutcome::Honoured { discount_minor: 100 });
    }
    assert_eq!(state(&till, promise.order_id).await, RedemptionState::Committed);
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 1);
    eventually("all of it is published", async || {
        let waiting = sqlx::query_scalar::<_, i64>("select count(*) from outbox where published_at is null");
        (waiting.fetch_one(till.database.pool()).await.unwrap() == 0).then_some(())
    })
    .await;
    assert_eq!(till.miscounted().await, Vec::<String>::new());
    till.app.running.stop().await;
}

// Trace 15: with the id of its message, the hop would be dropped as seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_coupon_is_tried_in_every_tier_and_ends_on_the_manual_list() {
    let (till, broker) = open([100, 200, 100, 300]).await;
    let promise = promised("SOLDOUT5");
    let order = promise.order_id;
    say(&till, &event(&promise)).await;
    let CouponOutcome::Refused { reason } = settled(&till, order).await else { panic!("honoured") };
    assert_eq!(on_manual_list(&till).await, [(order.to_string(), reason.clone())]);
    refused(till.redemption(order).await, ProblemType::NotFound).await;

    let mut ids = BTreeSet::new();
    for (tier, queue) in COMPENSATE.iter().enumerate() {
        let hops = sent(&till, queue.name, order).await;
        assert_eq!(hops.len(), 1, "{}", queue.name);
        let waited = hops[0].notbefore.map(|due| (due - hops[0].time).num_milliseconds());
        assert_eq!(waited, [None, Some(100), Some(200), Some(100), Some(300)][tier], "{}", queue.name);
        ids.insert(hops[0].id());
    }
    assert_eq!(ids.len(), 5, "each hop has an id of its own");

    let shown = eventually("the list is shown", async || {
        let request = till.app.client.get(till.app.admin_url("/internal/state"));
        let state: Value = request.send().await.unwrap().json().await.unwrap();
        let shown = state["state"]["compensations"].clone();
        (shown["manual"] == 1).then_some(shown)
    })
    .await;
    assert_eq!((&shown["waiting"], &shown["manual_list"][0]["code"]), (&0.into(), &"SOLDOUT5".into()));
    assert_eq!(shown["manual_list"][0]["order_id"], order.to_string());

    let metrics = till.app.client.get(till.app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("compensation_backlog{state=\"manual\"}"), "{metrics}");

    let letters = eventually("the last message is a dead letter", async || {
        let letters = dlq::list(&broker.config, Some("coupons.compensate")).await.unwrap();
        (!letters.is_empty()).then_some(letters)
    })
    .await;
    assert_eq!((letters.len(), letters[0].detail.as_ref()), (1, Some(&reason)));
    assert_eq!(letters[0].origin_topic, Some(broker.config.prefixed(COMPENSATE[4].name)));

    // Asked once more, it says the same and lists nothing anew.
    say(&till, &event(&promise)).await;
    eventually("it is answered again", async || (outcomes(&till, order).await.len() == 2).then_some(())).await;
    assert_eq!(settled(&till, order).await, CouponOutcome::Refused { reason });
    assert_eq!(on_manual_list(&till).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_that_comes_back_in_time_is_given_to_the_order_that_waits_for_it() {
    let (till, _broker) = open([300, 300, 60_000, 60_000]).await;
    till.issue("LAST", Some(1), None).await;
    let holder = till.hold("LAST").await;
    let promise = promised("LAST");
    say(&till, &event(&promise)).await;
    eventually("it waits", async || {
        (!sent(&till, COMPENSATE[1].name, promise.order_id).await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(till.release(holder).await.status(), 200);
    assert_eq!(settled(&till, promise.order_id).await, CouponOutcome::Honoured { discount_minor: 100 });
    assert_eq!(till.coupon("LAST").await.redeemed, 1);
    assert!(on_manual_list(&till).await.is_empty());
    till.app.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_cancelled_between_two_tries_gets_nothing_and_is_owed_nothing() {
    let (till, _broker) = open([1_500, 1_500, 1_500, 1_500]).await;
    let promise = promised("SOLDOUT5");
    say(&till, &event(&promise)).await;
    eventually("it waits", async || {
        (!sent(&till, COMPENSATE[1].name, promise.order_id).await.is_empty()).then_some(())
    })
    .await;
    say(&till, &cancelled(promise.order_id)).await;
    // Shares abound from now on; the order is dead all the same.
    sqlx::query("update coupons set total_limit = null where code = 'SOLDOUT5'")
        .execute(till.database.pool())
        .await
        .unwrap();
    let outcome = settled(&till, promise.order_id).await;
    assert!(matches!(outcome, CouponOutcome::Refused { .. }), "{outcome:?}");
    assert_eq!(state(&till, promise.order_id).await, RedemptionState::Released);
    assert_eq!(till.coupon("SOLDOUT5").await.redeemed, 0);
    assert!(on_manual_list(&till).await.is_empty());
    till.app.running.stop().await;
}

#[tokio::test]
async fn a_release_that_came_first_refuses_the_compensation_and_one_that_comes_after_gives_it_back() {
    let till = Till::open().await;
    let first = tier(&till, 0);
    let promise = promised("WELCOME10");
    orders(&till).handle(&cancelled(promise.order_id)).await.unwrap();
    assert_eq!(first.handle(&event(&due(&promise))).await.unwrap(), Outcome::Applied);
    assert!(matches!(outcomes(&till, promise.order_id).await[..], [CouponOutcome::Refused { .. }]));
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 0);
    assert!(on_manual_list(&till).await.is_empty());

    let promise = promised("WELCOME10");
    first.handle(&event(&due(&promise))).await.unwrap();
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 1);
    orders(&till).handle(&cancelled(promise.order_id)).await.unwrap();
    assert_eq!(state(&till, promise.order_id).await, RedemptionState::Returned);
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 0);
    // What was said stays said; order takes it back with the money.
    first.handle(&event(&due(&promise))).await.unwrap();
    let honoured = CouponOutcome::Honoured { discount_minor: 100 };
    assert_eq!(outcomes(&till, promise.order_id).await, [honoured.clone(), honoured]);
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 0);
}

#[tokio::test]
async fn a_redemption_whose_answer_was_lost_is_the_one_that_the_order_gets() {
    let till = Till::open().await;
    let promise = promised("FIVEOFF");
    let lost = till.redeem(promise.order_id, promise.user_id, "FIVEOFF", 1_000).await;
    assert_eq!(lost.status(), 201);
    tier(&till, 0).handle(&event(&due(&promise))).await.unwrap();
    assert_eq!(outcomes(&till, promise.order_id).await, [CouponOutcome::Honoured { discount_minor: 500 }]);
    assert_eq!(state(&till, promise.order_id).await, RedemptionState::Committed);
    assert_eq!(till.coupon("FIVEOFF").await.redeemed, 1);
}

#[tokio::test]
async fn what_will_never_be_had_is_refused_at_once_and_again_if_its_dead_letter_was_not_written() {
    let till = Till::open().await;
    for code in ["NO-SUCH-CODE", "EXPIRED5"] {
        let promise = promised(code);
        let message = event(&due(&promise));
        // The second time as after a crash between the commit and the dead letter.
        for _ in 0..2 {
            assert!(matches!(tier(&till, 0).handle(&message).await, Err(HandleError::Refused(_))), "{code}");
        }
        assert_eq!(outcomes(&till, promise.order_id).await.len(), 1, "{code}");
        assert!(sent(&till, COMPENSATE[1].name, promise.order_id).await.is_empty(), "{code}");
    }
    assert_eq!(on_manual_list(&till).await.len(), 2);
    // An order that dies is taken off the list; one that died while it was being put there does not count.
    let listed: Vec<(OrderId, String)> =
        on_manual_list(&till).await.into_iter().map(|(order, reason)| (order.parse().unwrap(), reason)).collect();
    orders(&till).handle(&cancelled(listed[0].0)).await.unwrap();
    assert_eq!(on_manual_list(&till).await.len(), 1);
    assert_eq!(till.release(listed[1].0).await.status(), 200);
    let backlog = compensations::backlog(till.database.pool(), 10).await.unwrap();
    assert_eq!((backlog.waiting, backlog.manual, backlog.oldest), (0, 0, vec![]));
    assert_eq!(till.miscounted().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_that_comes_twice_takes_effect_once_and_a_second_one_starts_no_second_series() {
    let till = Till::open().await;
    let promise = promised("SOLDOUT5");
    let message = event(&due(&promise));
    assert_eq!(tier(&till, 0).handle(&message).await.unwrap(), Outcome::Applied);
    assert_eq!(tier(&till, 0).handle(&message).await.unwrap(), Outcome::Duplicate);
    assert_eq!(tier(&till, 0).handle(&event(&due(&promise))).await.unwrap(), Outcome::Applied);
    let hops = sent(&till, COMPENSATE[1].name, promise.order_id).await;
    assert_eq!(hops.len(), 1);
    // The one that is under way goes on, also to the end.
    for (at, queue) in COMPENSATE.iter().enumerate().skip(1) {
        let hop = sent(&till, queue.name, promise.order_id).await.remove(0);
        let handled = tier(&till, at).handle(&hop).await;
        assert_eq!(handled.is_err(), at == 4, "{handled:?}");
    }
    assert_eq!(on_manual_list(&till).await.len(), 1);
    assert_eq!(outcomes(&till, promise.order_id).await.len(), 1);
}

#[tokio::test]
async fn a_coupon_that_is_locked_for_too_long_is_tried_again_later() {
    let mut rules = with_delays([100, 100, 100, 100]);
    rules.database.lock_timeout = Duration::from_millis(100);
    let broker = kafka::broker(&topic::all()).await.unwrap();
    let till = Till::open_ruled(broker.config.clone(), rules).await;
    let mut lock = till.database.pool().begin().await.unwrap();
    sqlx::query("select from coupons where code = 'WELCOME10' for update").execute(&mut *lock).await.unwrap();
    let promise = promised("WELCOME10");
    say(&till, &event(&promise)).await;
    eventually("it waits", async || {
        (!sent(&till, COMPENSATE[1].name, promise.order_id).await.is_empty()).then_some(())
    })
    .await;
    lock.rollback().await.unwrap();
    assert_eq!(settled(&till, promise.order_id).await, CouponOutcome::Honoured { discount_minor: 100 });
    assert_eq!(till.coupon("WELCOME10").await.redeemed, 1);
    till.app.running.stop().await;
}
