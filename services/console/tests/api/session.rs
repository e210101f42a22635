//! In and out by name and password, and what a cookie is good for.

use chassis::{
    auth::{Claims, Scope, mint},
    dev_secrets,
};
use contracts::UserId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::desk::{Desk, PASSWORD, body as answered, user};

#[tokio::test]
async fn an_operator_gets_in_by_name_and_password_and_out_for_good() {
    let desk = Desk::open().await;
    let answer = desk.log_in("ada", PASSWORD).await;
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    for part in ["console_session=", "; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert_eq!(answered(answer, 200).await["operator"], "ada");

    let session = desk.session().await;
    let shown = answered(desk.by(&session, Method::GET, "/v1/session").send().await.unwrap(), 200).await;
    assert_eq!((&shown["operator"], &shown["csrf"]), (&json!("ada"), &json!(session.csrf)));
    assert!(shown["expires_at"].is_string());
    answered(desk.by(&session, Method::GET, "/v1/audit").send().await.unwrap(), 200).await;

    let out = desk.by(&session, Method::DELETE, "/v1/session").send().await.unwrap();
    assert_eq!(out.status(), 204);
    assert!(out.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    for path in ["/v1/session", "/v1/audit", "/v1/live", "/v1/events"] {
        let over = desk.by(&session, Method::GET, path).send().await.unwrap();
        assert_eq!(answered(over, 401).await["type"], "urn:problem:unauthenticated", "{path}");
    }
}

#[tokio::test]
async fn a_session_that_is_too_old_or_was_not_used_for_long_is_over() {
    let desk = Desk::open().await;
    for change in [
        "update sessions set created_at = now() - interval '9 hours', expires_at = now() - interval '1 second'",
        "update sessions set used_at = now() - interval '61 minutes'",
    ] {
        let session = desk.session().await;
        answered(desk.by(&session, Method::GET, "/v1/session").send().await.unwrap(), 200).await;
        sqlx::query(change).execute(desk.stores.pool()).await.unwrap();
        answered(desk.by(&session, Method::GET, "/v1/session").send().await.unwrap(), 401).await;
        answered(desk.by(&session, Method::POST, "/v1/faults").json(&json!({})).send().await.unwrap(), 401).await;
    }
    let session = desk.session().await;
    sqlx::query("update sessions set used_at = now() - interval '59 minutes'")
        .execute(desk.stores.pool())
        .await
        .unwrap();
    answered(desk.by(&session, Method::GET, "/v1/session").send().await.unwrap(), 200).await;
    let unused =
        sqlx::query_scalar::<_, i64>("select count(*) from sessions where used_at < now() - interval '1 minute'");
    let unused = unused.fetch_one(desk.stores.pool()).await.unwrap();
    assert_eq!(unused, 2, "one of three was used just now");
}

#[tokio::test]
async fn what_a_browser_is_made_to_send_by_another_page_does_nothing() {
    let desk = Desk::open().await;
    let session = desk.session().await;
    let host = desk.app.running.api_addr().to_string();
    let fault = json!({"link": "order->payment", "kind": "hang", "settings": {}});
    let post = || desk.app.post("/v1/faults").header("cookie", &session.cookie).json(&fault);
    let foreign = [
        post(),
        post().header("x-csrf-token", "0".repeat(64)),
        post().header("x-csrf-token", &session.csrf).header("origin", "https://evil.example"),
        post().header("x-csrf-token", &session.csrf).header("origin", "null"),
        post().header("x-csrf-token", &session.csrf).header("sec-fetch-site", "cross-site"),
        desk.app.client.delete(desk.app.url("/v1/session")).header("cookie", &session.cookie),
    ];
    for request in foreign {
        let told = format!("{request:?}");
        assert_eq!(answered(request.send().await.unwrap(), 403).await["type"], "urn:problem:forbidden", "{told}");
    }
    // Getting somebody in who did not mean to is an attack as well.
    let login = desk.app.post("/v1/session").json(&json!({"name": "ada", "password": PASSWORD}));
    answered(login.header("origin", "https://evil.example").send().await.unwrap(), 403).await;
    assert_eq!(desk.audit().await, []);
    answered(desk.by(&session, Method::GET, "/v1/session").send().await.unwrap(), 200).await;
    // Our own page gets as far as there are links.
    let own = desk.by(&session, Method::POST, "/v1/faults").header("origin", format!("http://{host}")).json(&fault);
    answered(own.send().await.unwrap(), 404).await;
}

#[tokio::test]
async fn nothing_but_a_session_or_an_operators_token_gets_in() {
    let desk = Desk::open().await;
    let now = chrono::Utc::now().timestamp().unsigned_abs();
    let expired =
        Claims { sub: UserId::generate(), name: None, tenant: None, tier: None, scope: Scope::Operator, exp: now - 1 };
    let expired = mint(dev_secrets::AUTH_JWT_SECRET, &expired).unwrap();
    let routes = [
        (Method::GET, "/v1/session"),
        (Method::DELETE, "/v1/session"),
        (Method::GET, "/v1/live"),
        (Method::GET, "/v1/events"),
        (Method::GET, "/v1/orders"),
        (Method::POST, "/v1/orders"),
        (Method::GET, "/v1/products"),
        (Method::GET, "/v1/dead-letters"),
        (Method::POST, "/v1/dead-letters/orders.dlq-0-1/replay"),
        (Method::GET, "/v1/reviews"),
        (Method::POST, "/v1/reviews/0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b/ask"),
        (Method::GET, "/v1/faults"),
        (Method::POST, "/v1/faults"),
        (Method::DELETE, "/v1/faults"),
        (Method::DELETE, "/v1/faults/x/y-1"),
    ];
    for (method, path) in routes {
        let request = || desk.app.client.request(method.clone(), desk.app.url(path)).json(&json!({"reason": "x"}));
        for stranger in [
            request(),
            request().header("cookie", "console_session=1"),
            request().header("cookie", format!("console_session={}", "ab".repeat(32))),
            request().bearer_auth(&expired),
            request().bearer_auth(dev_secrets::internal_token("order")),
        ] {
            assert_eq!(
                answered(stranger.send().await.unwrap(), 401).await["type"],
                "urn:problem:unauthenticated",
                "{path}"
            );
        }
        let as_user = request().bearer_auth(user()).send().await.unwrap();
        assert_eq!(answered(as_user, 403).await["type"], "urn:problem:forbidden", "{path}");
    }
    assert_eq!(desk.audit().await, []);
}

#[tokio::test]
async fn wrong_passwords_are_refused_alike_and_soon_not_looked_at_any_more() {
    let desk = Desk::open().await;
    let mut said = Vec::new();
    for (name, password) in [("ada", "wrong"), ("nobody", PASSWORD), ("bob", PASSWORD)] {
        said.push(answered(desk.log_in(name, password).await, 401).await);
    }
    assert!(said.iter().all(|problem| *problem == said[0]), "which of the two was wrong is not told: {said:?}");
    assert!(desk.log_in("ada", "wrong").await.headers().get("set-cookie").is_none());
    let mut refused = None;
    for _ in 0..10 {
        let answer = desk.log_in("ada", "wrong").await;
        if answer.status() == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("guesses of one name are limited");
    assert!(refused.headers().contains_key("retry-after"));
    let problem = answered(refused, 429).await;
    assert_eq!(
        (&problem["type"], &problem["mechanism"]),
        (&json!("urn:problem:rate-limited"), &json!("rate_limit.login"))
    );
    answered(desk.log_in("ada", PASSWORD).await, 429).await;
    answered(desk.log_in("bob", "the password of bob").await, 200).await;
}

#[tokio::test]
async fn guesses_with_ever_new_names_are_limited_too() {
    let desk = Desk::open().await;
    let guesses = (0..60).map(|n| {
        let desk = &desk;
        async move { desk.log_in(&format!("name {n}"), "wrong").await.status().as_u16() }
    });
    let answers = futures_util::future::join_all(guesses).await;
    let looked_at = answers.iter().filter(|status| **status == 401).count();
    assert!(answers.contains(&429) && looked_at < 50, "{answers:?}");
}

#[tokio::test]
async fn what_is_no_login_is_refused_without_repeating_it() {
    let desk = Desk::open().await;
    for (body, status) in [
        (json!({}), 400),
        (json!({"name": "ada"}), 400),
        (json!({"name": "ada", "password": 7}), 400),
        (json!({"name": "ada", "password": "hunter2", "more": 1}), 400),
        (json!({"name": "", "password": "hunter2"}), 422),
        (json!({"name": "hunter2".repeat(10), "password": "x"}), 422),
        (json!({"name": "ada", "password": "hunter2".repeat(50)}), 422),
    ] {
        let answer = desk.app.post("/v1/session").json(&body).send().await.unwrap();
        let problem = answered(answer, status).await.to_string();
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[tokio::test]
async fn only_so_many_sessions_of_one_operator_are_kept_and_none_by_its_id() {
    let desk = Desk::open().await;
    let first = desk.session().await;
    let id = first.cookie.split('=').nth(1).unwrap().to_owned();
    let kept: Vec<(Vec<u8>, String)> =
        sqlx::query_as("select id_hash, operator from sessions").fetch_all(desk.stores.pool()).await.unwrap();
    assert_ne!(hex(&kept[0].0), id);
    sqlx::query(
        "insert into sessions (id_hash, operator, used_at, expires_at)
         select decode(lpad(n::text, 64, '0'), 'hex'), 'ada', now() - n * interval '1 second', now() + interval '1 hour'
           from generate_series(1, 30) n",
    )
    .execute(desk.stores.pool())
    .await
    .unwrap();
    let last = desk.session().await;
    let count: i64 = sqlx::query_scalar("select count(*) from sessions").fetch_one(desk.stores.pool()).await.unwrap();
    assert_eq!(count, 20);
    for session in [first, last] {
        answered(desk.by(&session, Method::GET, "/v1/session").send().await.unwrap(), 200).await;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn another_login_in_the_same_browser_ends_the_session_before() {
    let desk = Desk::open().await;
    let before = desk.session().await;
    let again = desk
        .app
        .post("/v1/session")
        .header("cookie", &before.cookie)
        .json(&json!({"name": "ada", "password": PASSWORD}));
    answered(again.send().await.unwrap(), 200).await;
    answered(desk.by(&before, Method::GET, "/v1/session").send().await.unwrap(), 401).await;
}

#[tokio::test]
async fn no_secret_is_in_any_answer_state_or_metric() {
    let desk = Desk::open().await;
    let session = desk.session().await;
    let id = session.cookie.split('=').nth(1).unwrap().to_owned();
    desk.log_in("ada", "a wrong one hunter2").await;
    let planted = [
        PASSWORD,
        "the password of bob",
        "hunter2",
        dev_secrets::AUTH_JWT_SECRET,
        &dev_secrets::internal_token("console"),
        &dev_secrets::internal_token("order"),
        &id,
    ];
    let mut told: Vec<(String, String)> = Vec::new();
    for path in [
        "/v1/session",
        "/v1/live",
        "/v1/rules",
        "/v1/audit",
        "/v1/faults",
        "/v1/reviews",
        "/v1/dead-letters",
        "/v1/orders",
        "/v1/products",
        "/v1/nothing",
        "/",
    ] {
        let answer = desk.by(&session, Method::GET, path).send().await.unwrap();
        told.push((path.to_owned(), format!("{:?} {}", answer.headers().clone(), answer.text().await.unwrap())));
    }
    for path in ["/metrics", "/internal/state", "/openapi.json", "/readyz"] {
        let answer = desk.app.client.get(desk.app.admin_url(path)).send().await.unwrap();
        told.push((path.to_owned(), answer.text().await.unwrap()));
    }
    for (path, text) in &told {
        for secret in planted {
            assert!(!text.contains(secret), "{path} tells a secret: {text}");
        }
    }
    let shown: Value = serde_json::from_str(
        &desk.by(&session, Method::GET, "/v1/session").send().await.unwrap().text().await.unwrap(),
    )
    .unwrap();
    assert_eq!(shown["csrf"], json!(session.csrf), "what the page needs it is given");
}
