//! What waits for a person: shown to the console and asked after on its word, and on nobody else's.

use chassis::dev_secrets;
use contracts::{AttemptId, OrderId, RefundId, Service, UserId};
use serde_json::{Value, json};
use testkit::{TestApp, caller_token, user_token};

use crate::{
    bank::{BOTH, Bank, NEITHER, hasty, of},
    scene::{Answer, Scene, any_kafka, approves, charge, send, send_anonymously},
};

async fn ask(app: &TestApp, id: impl std::fmt::Display) -> Answer {
    let request = app.post(&format!("/v1/operator/reviews/{id}/ask"));
    send_anonymously(request.bearer_auth(dev_secrets::internal_token("console"))).await
}

async fn list(app: &TestApp, query: &str) -> Answer {
    listed(app, "reviews", query).await
}

async fn listed(app: &TestApp, what: &str, query: &str) -> Answer {
    let request = app.get(&format!("/v1/operator/{what}{query}"));
    send_anonymously(request.bearer_auth(dev_secrets::internal_token("console"))).await
}

/// An attempt that nobody at the provider answers for.
async fn in_review(bank: &Bank) -> AttemptId {
    let attempt = AttemptId::generate();
    bank.put(attempt, &of("tok_lost_reply")).await.unwrap();
    let cut_off = bank.restarted(NEITHER);
    while bank.state(attempt).await != "review" {
        let event = bank.question(attempt).await.unwrap();
        let due = event.decode().unwrap().unwrap();
        cut_off.reconcile(&event, &due, contracts::topic::RETRY_TIERS).await.unwrap();
    }
    attempt
}

/// The service over the bank's database, without a provider and a broker.
async fn served(bank: &Bank) -> TestApp {
    let nowhere = testkit::stub::refusing_url();
    let config = crate::scene::config(bank.database_url(), any_kafka(), &nowhere, &nowhere);
    let mut rules = crate::scene::patient();
    // Nothing moves by itself.
    rules.reconcile.lost_after = std::time::Duration::from_secs(3_600);
    TestApp::start(Service::Payment, rules, |wiring, lifecycle| payment::app::build(config, wiring, lifecycle)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_in_review_are_listed_oldest_first_page_by_page_without_what_pays() {
    let bank = Bank::open_with(hasty(), BOTH).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(json!(in_review(&bank).await));
    }
    bank.put(AttemptId::generate(), &of("tok_approve")).await.unwrap();
    let app = served(&bank).await;
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&app, &format!("?limit=2{cursor}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(!page.body.to_string().contains("tok_"), "{page:?}");
        for review in page.body["items"].as_array().unwrap() {
            assert_eq!((&review["amount_minor"], &review["currency"]), (&json!(4_200), &json!("USD")));
            assert_eq!(review["channel"], "primary");
            assert!(review["order_id"].is_string() && review["since"].is_string(), "{review}");
            assert!(review["last_answer"].as_str().unwrap().starts_with("unanswered"), "{review}");
            listed.push(review["attempt_id"].clone());
        }
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, waiting);
}

/// A refund in that state; of an order, or of a charge that was one too many.
async fn refund(bank: &Bank, state: &str, of_an_order: bool) -> RefundId {
    let id = RefundId::generate();
    let asker = of_an_order.then(|| (OrderId::generate().as_uuid(), AttemptId::generate().as_uuid()));
    sqlx::query(
        "with charge as (
             insert into charges (channel, provider_ref, key, amount_minor, currency, role, found_by)
             values ('backup', 'ch_' || $1::text, 'of nobody', 4200, 'USD', 'extra', 'ledger'))
         insert into refunds (id, channel, provider_ref, amount_minor, currency, reason, order_id, attempt_id, state,
                              sends, next_send_at, created_at, updated_at)
         values ($1, 'backup', 'ch_' || $1::text, 4200, 'USD', 'cancelled', $2, $3, $4, 7,
                 now() + interval '1 day', now(), now())",
    )
    .bind(id.as_uuid())
    .bind(asker.map(|(order, _)| order))
    .bind(asker.map(|(_, attempt)| attempt))
    .bind(state)
    .execute(bank.database.pool())
    .await
    .unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_that_the_provider_does_not_make_are_listed_oldest_first_page_by_page() {
    let bank = Bank::open_with(hasty(), BOTH).await;
    let owed = refund(&bank, "review", true).await;
    refund(&bank, "sent", true).await;
    let extra = refund(&bank, "review", false).await;
    let app = served(&bank).await;
    let first = listed(&app, "refund-reviews", "?limit=1").await;
    let [only] = &first.body["items"].as_array().unwrap()[..] else { panic!("{first:?}") };
    assert_eq!(
        (&only["refund_id"], &only["amount_minor"], &only["channel"]),
        (&json!(owed), &json!(4_200), &json!("backup"))
    );
    assert_eq!((&only["reason"], &only["sends"]), (&json!("cancelled"), &json!(7)));
    assert!(only["order_id"].is_string() && only["since"].is_string() && only["sent_again_at"].is_string(), "{only}");
    let cursor = first.body["next_cursor"].as_str().unwrap();
    let second = listed(&app, "refund-reviews", &format!("?limit=1&cursor={cursor}")).await;
    assert_eq!((&second.body["items"][0]["refund_id"], &second.body["next_cursor"]), (&json!(extra), &json!(null)));
    assert_eq!(second.body["items"][0]["order_id"], json!(null), "no order knows of it");
    listed(&app, "refund-reviews", "?limit=0").await.is_problem(400, "invalid-request");
    listed(&app, "refund-reviews", "?cursor=x").await.is_problem(400, "invalid-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_request_the_provider_is_asked_anew_and_what_it_says_settles_the_attempt() {
    let bank = Bank::open_with(hasty(), BOTH).await;
    let attempt = in_review(&bank).await;
    let app = served(&bank).await;
    let before = bank.question(attempt).await.unwrap();
    let asked = ask(&app, attempt).await;
    assert_eq!((asked.status, &asked.body["state"]), (202, &json!("review")));
    let question = bank.question(attempt).await.unwrap();
    assert_ne!(question.id, before.id, "a message of its own asks");
    // The lost reply was a charge.
    bank.ask(attempt).await;
    assert_eq!(bank.state(attempt).await, "approved");
    let again = ask(&app, attempt).await;
    assert_eq!((again.status, &again.body["state"]), (200, &json!("approved")), "nothing is open any more");
    assert_eq!(list(&app, "").await.body, json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn what_is_unknown_or_never_waited_is_not_asked_after() {
    let scene = Scene::start(approves()).await;
    ask(&scene.app, AttemptId::generate()).await.is_problem(404, "not-found");
    ask(&scene.app, "seven").await.is_problem(404, "not-found");
    let id = AttemptId::generate();
    scene.put(id, &charge()).await;
    let settled = ask(&scene.app, id).await;
    assert_eq!((settled.status, &settled.body["state"]), (200, &json!("approved")));
    for (query, field) in [
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?limit=x", "query"),
        ("?cursor=x", "cursor"),
        ("?a=b", "query"),
    ] {
        let refused = list(&scene.app, query).await;
        refused.is_problem(400, "invalid-request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{query}");
    }
}

#[tokio::test]
async fn nobody_but_the_console_is_let_in() {
    let scene = Scene::start(approves()).await;
    let requests = || {
        let ask = scene.app.post(&format!("/v1/operator/reviews/{}/ask", AttemptId::generate()));
        [scene.app.get("/v1/operator/reviews"), scene.app.get("/v1/operator/refund-reviews"), ask]
    };
    for request in requests() {
        send_anonymously(request).await.is_problem(401, "unauthenticated");
    }
    for request in requests() {
        send_anonymously(request.bearer_auth(user_token(UserId::generate()))).await.is_problem(401, "unauthenticated");
    }
    for request in requests() {
        send(request).await.is_problem(403, "forbidden");
    }
    for request in requests() {
        send_anonymously(request.bearer_auth(caller_token(Service::Payment))).await.is_problem(403, "forbidden");
    }
    let none: Vec<Value> = Vec::new();
    assert_eq!(list(&scene.app, "").await.body["items"], json!(none));
}
