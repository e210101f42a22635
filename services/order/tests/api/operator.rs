//! What the console is shown of everybody's orders, and what nobody else is.

use contracts::{Service, UserId};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use testkit::{Reply, caller_token, user_token};
use uuid::Uuid;

use crate::world::{World, answer, patient, tea};

impl World {
    fn operator(&self, path: &str) -> RequestBuilder {
        self.app.get(&format!("/v1/operator{path}")).bearer_auth(chassis::dev_secrets::internal_token("console"))
    }

    async fn ids(&self, query: &str) -> Vec<Value> {
        let (status, page) = answer(self.operator(&format!("/orders?{query}")).send().await.unwrap()).await;
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().unwrap().iter().map(|order| order["id"].clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybodys_orders_are_listed_newest_first_by_status_and_by_user() {
    let mut rules = patient();
    rules.key_limits.user.default.burst = 100;
    let mut world = World::with_rules(rules).await;
    let first = world.user;
    let mut placed = vec![world.place("a", &tea()).await.1["id"].clone()];
    world.user = UserId::generate();
    placed.push(world.place("b", &tea()).await.1["id"].clone());
    world.payment.behave(|_| Reply::Close);
    placed.push(world.place("c", &tea()).await.1["id"].clone());
    placed.reverse();

    assert_eq!(world.ids("").await, placed);
    assert_eq!(world.ids("status=confirmed").await, placed[1..]);
    assert_eq!(world.ids("status=payment_pending").await, placed[..1]);
    assert_eq!(world.ids("status=rejected").await, Vec::<Value>::new());
    assert_eq!(world.ids(&format!("user_id={first}")).await, placed[2..]);
    assert_eq!(world.ids(&format!("user_id={}&status=confirmed", world.user)).await, placed[1..2]);

    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = answer(world.operator(&format!("/orders?limit=1{cursor}")).send().await.unwrap()).await;
        let [order] = &page["items"].as_array().unwrap()[..] else { panic!("{page}") };
        assert!(order["user_id"].is_string() && order["items"].is_array(), "{order}");
        assert!(order.get("payment_method").is_none(), "what pays is nobody's business: {order}");
        listed.push(order["id"].clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, placed);
}

#[tokio::test(flavor = "multi_thread")]
async fn anybodys_order_and_its_history_are_shown() {
    let world = World::start().await;
    let (_, order) = world.place("k", &tea()).await;
    let id = order["id"].as_str().unwrap();
    let (status, shown) = answer(world.operator(&format!("/orders/{id}")).send().await.unwrap()).await;
    assert_eq!((status, &shown["user_id"]), (200, &json!(world.user)));
    for (member, value) in order.as_object().unwrap() {
        assert_eq!(&shown[member], value, "{member}");
    }
    let (status, history) = answer(world.operator(&format!("/orders/{id}/history")).send().await.unwrap()).await;
    let events: Vec<_> = history.as_array().unwrap().iter().map(|entry| entry["to"].as_str().unwrap()).collect();
    assert_eq!((status, events), (200, vec!["created", "stock_reserved", "payment_in_flight", "confirmed"]));
    for path in ["", "/history"] {
        let unknown = format!("/orders/{}{path}", Uuid::now_v7());
        let (status, problem) = answer(world.operator(&unknown).send().await.unwrap()).await;
        assert_eq!((status, &problem["type"]), (404, &json!("urn:problem:not-found")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_console_is_let_in() {
    let world = World::start().await;
    let (_, order) = world.place("k", &tea()).await;
    let id = order["id"].as_str().unwrap();
    for path in ["/orders".to_owned(), format!("/orders/{id}"), format!("/orders/{id}/history")] {
        let ask = |token: String| world.app.get(&format!("/v1/operator{path}")).bearer_auth(token).send();
        let (status, problem) = answer(ask(user_token(world.user)).await.unwrap()).await;
        assert_eq!((status, &problem["type"]), (401, &json!("urn:problem:unauthenticated")), "{path}");
        for service in [Service::Payment, Service::Order] {
            let (status, problem) = answer(ask(caller_token(service)).await.unwrap()).await;
            assert_eq!((status, &problem["type"]), (403, &json!("urn:problem:forbidden")), "{path}");
        }
        let console = chassis::dev_secrets::internal_token("console");
        let to_users = world.app.get("/v1/orders").bearer_auth(console).send().await.unwrap();
        assert_eq!(to_users.status(), 401, "and the console is no user");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_query_is_refused_by_name() {
    let world = World::start().await;
    for query in ["limit=0", "limit=101", "limit=x", "cursor=x", "status=lost", "user_id=7", "colour=red", "cursor=%00"]
    {
        let (status, body) = answer(world.operator(&format!("/orders?{query}")).send().await.unwrap()).await;
        assert_eq!((status, &body["type"]), (400, &json!("urn:problem:invalid-request")), "{query}");
        let field = body["errors"][0]["field"].as_str().unwrap();
        assert!(field == query.split('=').next().unwrap() || field == "query", "{query}: {body}");
    }
    let (status, body) = answer(world.operator("/orders/seven").send().await.unwrap()).await;
    assert_eq!((status, &body["type"]), (404, &json!("urn:problem:not-found")));
    let posted = world.app.post("/v1/operator/orders").bearer_auth(chassis::dev_secrets::internal_token("console"));
    assert_eq!(posted.send().await.unwrap().status(), 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_orders_stand_and_what_came_there_is_counted() {
    let world = World::start().await;
    world.place("a", &tea()).await;
    world.payment.behave(|_| Reply::Close);
    world.place("b", &tea()).await;
    testkit::eventually("the gauges are set", || async {
        let metrics = world.app.client.get(world.app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
        let scrape = testkit::Scrape::of(metrics);
        // Of all the services that run in this process.
        let at_least = |name, status: &str| scrape.value(name, &format!("status=\"{status}\"")).unwrap() >= 1.0;
        let entered = ["created", "stock_reserved", "payment_in_flight", "confirmed"];
        let counted = entered.iter().all(|status| at_least("orders_entered_total", status));
        (counted && at_least("orders_open", "payment_pending")).then_some(())
    })
    .await;
}
