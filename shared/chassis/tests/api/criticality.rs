//! How important a request is travels with every call that it causes.

use contracts::{Service, UserId, headers};
use rules::{Criticality, Rules};
use serde_json::json;
use testkit::{Reply, Stub, caller_token, user_token};

use super::relay::Relay;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_was_taken_for_is_passed_on() {
    let stub = Stub::start(|_| Reply::Json(200, json!(1))).await;
    let mut rules = Rules::default();
    rules.route.entry("GET /v1/stock".into()).or_default().criticality = Criticality::Sheddable;
    let relay = Relay::start(rules.clone(), &stub.url()).await;
    let passed_on = async |request: reqwest::RequestBuilder, said: Option<&str>| {
        let request = said.into_iter().fold(request, |request, word| request.header(headers::CRITICALITY, word));
        assert_eq!(request.send().await.unwrap().status(), 200);
        stub.seen().last().unwrap().header(headers::CRITICALITY).unwrap().to_owned()
    };
    let user = user_token(UserId::generate());
    let page = || relay.products(&user);
    assert_eq!(passed_on(page(), None).await, "sheddable", "as its route says");
    assert_eq!(passed_on(page(), Some("critical")).await, "sheddable", "nobody outside pushes forward");
    let stock = || relay.app.get("/v1/stock").bearer_auth(caller_token(Service::Payment));
    assert_eq!(passed_on(stock(), None).await, "sheddable");
    assert_eq!(passed_on(stock(), Some("critical")).await, "critical", "a service knows what it works for");

    rules.route.get_mut("GET /v1/products").unwrap().criticality = Criticality::Critical;
    let relay = Relay::start(rules, &stub.url()).await;
    let page = || relay.products(&user);
    assert_eq!(passed_on(page(), None).await, "critical");
    assert_eq!(passed_on(page(), Some("sheddable")).await, "sheddable", "but everybody may step back");
}
