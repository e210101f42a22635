//! Versions: published, tried out, promoted, taken back, and who gets which.

use futures_util::future::join;
use serde_json::{Value, json};

use crate::desk::{Desk, body, told};

#[tokio::test]
async fn a_version_is_published_tried_out_promoted_and_taken_back_and_each_step_is_written_down() {
    let desk = Desk::open().await;
    let first = desk.draft("# the first\n").await;
    assert_eq!(desk.done(first, "promote").await["state"], "active");
    let answer = desk.publish("[chain]\nretries = 2\n", Some(first)).await;
    assert_eq!(answer.headers()["location"], "/v1/rules/2");
    let draft = body(answer, 201).await;
    assert_eq!(
        (&draft["state"], &draft["author"], &draft["based_on"]),
        (&"draft".into(), &"ada".into(), &first.into())
    );
    let tried = desk.done(2, "canary").await;
    assert_eq!((&tried["state"], &tried["canary"]), (&"canary".into(), &json!(["order-0"])));
    assert_eq!(desk.heard("order-0", Some(1)).await, (200, Some(2)));
    assert_eq!(desk.heard("order-1", Some(1)).await, (304, None));
    assert_eq!(desk.done(2, "promote").await["canary"], Value::Null);
    assert_eq!(desk.states().await, ["active", "superseded"]);
    assert_eq!(desk.heard("order-1", Some(1)).await, (200, Some(2)));
    assert_eq!(desk.done(2, "rollback").await["state"], "rolled_back");
    assert_eq!(desk.states().await, ["rolled_back", "active"]);
    assert_eq!(desk.heard("order-0", Some(2)).await, (200, Some(1)));
    assert_eq!(desk.seen("/v1/rules/1").await["document"], "# the first\n");

    let audit = desk.seen("/v1/audit").await;
    let told: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|item| (&item["action"], &item["target"])).collect();
    let expected = [
        ("rollback", "version 2"),
        ("promote", "version 2"),
        ("canary", "version 2 on order-0"),
        ("publish", "version 2"),
        ("promote", "version 1"),
        ("publish", "version 1"),
    ];
    assert_eq!(
        told,
        expected.map(|(action, target)| (json!(action), json!(target))).iter().map(|(a, t)| (a, t)).collect::<Vec<_>>()
    );
    assert_eq!((&audit["items"][0]["operator"], &audit["items"][0]["reason"]), (&"ada".into(), &"a test".into()));
    let page = desk.seen("/v1/audit?limit=4").await;
    let rest = desk.seen(&format!("/v1/audit?limit=4&cursor={}", page["next_cursor"].as_str().unwrap())).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (2, &Value::Null));
}

#[tokio::test]
async fn of_two_operators_who_publish_at_once_one_gets_the_conflict_and_nothing_is_lost() {
    let desk = Desk::open().await;
    let based_on = desk.draft("").await;
    let (one, other) = join(
        desk.publish("[chain]\nretries = 1", Some(based_on)),
        desk.publish("[chain]\nretries = 2", Some(based_on)),
    )
    .await;
    let (won, lost) = if one.status() == 201 { (one, other) } else { (other, one) };
    let problem = body(lost, 409).await;
    assert_eq!((&problem["type"], &problem["retryable"]), (&"urn:problem:version-conflict".into(), &false.into()));
    let won = body(won, 201).await;
    assert_eq!((won["version"].as_i64(), desk.states().await.len()), (Some(based_on + 1), 2));
    // Whoever lost looks at what came first, and goes on from there.
    body(desk.publish("[chain]\nretries = 2", Some(based_on + 1)).await, 201).await;
}

#[tokio::test]
async fn of_two_who_promote_at_once_one_does() {
    let desk = Desk::open().await;
    let version = desk.draft("").await;
    let (one, other) = join(desk.act(version, "promote"), desk.act(version, "promote")).await;
    let mut statuses = [one.status().as_u16(), other.status().as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

#[tokio::test]
async fn a_bad_document_is_refused_with_path_line_and_reason_and_leaves_nothing() {
    let desk = Desk::open().await;
    let bad = "# comment\n[chain]\nretries = \"many\"\n[downstream.payment.breaker]\nfailure_ratio = 1.5\n";
    let problem = body(desk.publish(bad, None).await, 422).await;
    let at: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|e| (&e["field"], &e["line"])).collect();
    let expected = [(json!("chain.retries"), json!(3)), (json!("downstream.payment.breaker.failure_ratio"), json!(5))];
    assert_eq!(at, expected.iter().map(|(f, l)| (f, l)).collect::<Vec<_>>());
    let judged = body(desk.post("/v1/rules/validate", &json!({"document": bad})).await, 200).await;
    assert_eq!((&judged["valid"], &judged["errors"][0]["path"]), (&false.into(), &"chain.retries".into()));
    assert_eq!(judged["errors"][0]["line"], 3);
    let none = body(desk.publish("[chain", None).await, 422).await;
    assert_eq!((&none["errors"][0]["field"], &none["errors"][0]["line"]), (&"document".into(), &1.into()));
    let fine = body(desk.post("/v1/rules/validate", &json!({"document": ""})).await, 200).await;
    assert_eq!(fine, json!({"valid": true}));
    assert!(desk.states().await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_done_now_is_a_conflict_and_what_is_not_there_is_not_found() {
    let desk = Desk::open().await;
    let (old, new) = (desk.draft("").await, desk.draft("").await);
    body(desk.act(7, "promote").await, 404).await;
    body(desk.get("/v1/rules/7").send().await.unwrap(), 404).await;
    body(desk.act(old, "rollback").await, 409).await;
    desk.done(new, "promote").await;
    let late = body(desk.act(old, "promote").await, 409).await;
    assert!(late["detail"].as_str().unwrap().contains("version 2 came into force"), "{late}");
    let unsaid = desk.post(&format!("/v1/rules/{new}/rollback"), &json!({"reason": " "})).await;
    assert_eq!(body(unsaid, 422).await["errors"][0]["field"], "reason");
}

#[tokio::test]
async fn a_difference_is_told_value_by_value_with_the_defaults_filled_in() {
    let desk = Desk::open().await;
    let first = desk.draft("[chain]\nretries = 2\n").await;
    let changed = json!([{"path": "chain.retries", "before": 3, "after": 2}]);
    assert_eq!(desk.seen("/v1/rules/1/diff").await, json!({"against": null, "changes": changed}));
    desk.done(first, "promote").await;
    desk.draft("version = 9\n[chain]\nretries = 3\n[degrade]\npayment = \"defer\"").await;
    let difference = desk.seen("/v1/rules/2/diff").await;
    assert_eq!(difference["against"], 1);
    let expected = json!([
        {"path": "chain.retries", "before": 2, "after": 3}, {"path": "degrade.payment", "before": "on", "after": "defer"}
    ]);
    assert_eq!(difference["changes"], expected);
    assert_eq!(desk.seen("/v1/rules/2/diff?against=0").await["changes"].as_array().unwrap().len(), 1);
    body(desk.get("/v1/rules/2/diff?against=9").send().await.unwrap(), 404).await;
}

#[tokio::test]
async fn who_waits_for_news_hears_of_it_and_who_is_up_to_date_does_not() {
    let desk = Desk::open().await;
    assert_eq!(desk.heard("order-0", None).await, (404, None));
    assert_eq!(desk.heard("order-0", Some(7)).await, (404, None), "a history that was lost takes nothing from others");
    let version = desk.draft("").await;
    assert_eq!(desk.heard("order-0", None).await, (404, None), "a draft is for nobody");
    // Longer than the test takes: it ends because of the promotion.
    let waiting = tokio::spawn(desk.asking("order-0", None, 30_000).send());
    desk.done(version, "promote").await;
    assert_eq!(told(waiting.await.unwrap().unwrap()).await, (200, Some(1)));
    assert_eq!(desk.heard("order-0", Some(1)).await, (304, None));
}

#[tokio::test]
async fn when_nothing_is_in_force_any_more_services_go_back_to_rules_of_their_own() {
    let desk = Desk::open().await;
    let version = desk.draft("").await;
    desk.done(version, "canary").await;
    assert_eq!(desk.heard("order-0", None).await, (200, Some(1)));
    assert_eq!(desk.heard("order-1", None).await, (204, Some(0)));
    desk.done(version, "rollback").await;
    assert_eq!(desk.heard("order-0", Some(1)).await, (204, Some(0)));
    assert_eq!(desk.heard("order-0", Some(0)).await, (304, None));
}

#[tokio::test]
async fn a_stop_ends_the_waits() {
    let desk = Desk::open().await;
    let waiting = tokio::spawn(desk.asking("order-0", None, 30_000).send());
    let lifecycle = desk.app.running.lifecycle.clone();
    testkit::eventually("it waits", async || (lifecycle.in_flight() > 0).then_some(())).await;
    desk.app.running.stop().await;
    assert_eq!(told(waiting.await.unwrap().unwrap()).await, (404, None));
}

#[tokio::test]
async fn without_its_database_it_still_says_what_is_in_force() {
    let desk = Desk::open().await;
    let version = desk.draft("").await;
    desk.done(version, "promote").await;
    desk.database.refuse_connections().await;
    assert_eq!(desk.heard("order-0", None).await, (200, Some(1)));
}

#[tokio::test]
async fn what_each_instance_runs_on_stands_beside_what_it_should_run_on() {
    let desk = Desk::open().await;
    for _ in 0..2 {
        let version = desk.draft("").await;
        desk.done(version, if version == 1 { "promote" } else { "canary" }).await;
    }
    for (service, instance, error) in
        [("order", "order-0", Some("line 3: chain.retries: is no number")), ("coupon", "coupon-0", None)]
    {
        let report =
            json!({"service": service, "instance": instance, "version": 1, "origin": "console", "error": error});
        let request = desk.app.post("/v1/rules/applied").json(&report);
        let answer = request.bearer_auth(testkit::caller_token(service.parse().unwrap())).send().await.unwrap();
        assert_eq!(answer.status(), 204);
    }
    let seen = desk.seen("/v1/rules/instances").await;
    let told: Vec<_> =
        seen["items"].as_array().unwrap().iter().map(|i| [&i["instance"], &i["version"], &i["expected"]]).collect();
    let expected = [[json!("coupon-0"), json!(1), json!(1)], [json!("order-0"), json!(1), json!(2)]];
    assert_eq!(told, expected.iter().map(|row| row.each_ref()).collect::<Vec<_>>());
    assert_eq!(
        (&seen["items"][0]["error"], &seen["items"][1]["error"]),
        (&Value::Null, &"line 3: chain.retries: is no number".into())
    );
}
