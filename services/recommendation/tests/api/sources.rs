//! Where answers come from when everything works, and when Redis or the database does not.

use std::time::Duration;

use cache::{Cache, CacheConfig, Freshness};
use contracts::{
    Service as Name,
    recommendation::{Recommended, Source, default_list},
};
use events::KafkaConfig;
use recommendation::workflow::Unavailable;
use rules::{Origin, RecommendationLevel, Rules};
use testkit::{caller_token, eventually, redis::shared_url};

use crate::service::{Service, nowhere};

#[tokio::test]
async fn who_asks_again_is_answered_from_the_cache() {
    let service = Service::start().await;
    service.ordered(&["A", "B"]).await;
    let first = service.recommended("?sku=A").await;
    assert_eq!(first.source, Source::Live);
    service.ordered(&["A", "C"]).await;
    // One entry a product, whatever the limit.
    for query in ["?sku=A", "?sku=A&limit=50"] {
        let again = service.recommended(query).await;
        assert_eq!((again.source, again.items), (Source::Cache, first.items.clone()));
    }
    assert_eq!(service.skus("?sku=C").await.0, Source::Live);
    let state = service.cache_state().await;
    assert_eq!((&state["hits"], &state["misses"], &state["errors"]), (&2.into(), &2.into(), &0.into()));
}

#[tokio::test]
async fn without_redis_answers_are_live_and_the_service_is_ready() {
    let redis = format!("redis://{}", nowhere());
    let service = Service::start_with(&redis, KafkaConfig::new(nowhere(), "test")).await;
    service.ordered(&["A", "B"]).await;
    for _ in 0..5 {
        assert_eq!(service.skus("?sku=A").await, (Source::Live, vec!["B".to_owned()]));
    }
    assert!(service.cache_state().await["errors"].as_u64().unwrap() >= 1);
    assert_eq!(service.admin("/readyz").await.status(), 200);
}

#[tokio::test]
async fn without_the_database_an_older_answer_is_given_and_else_the_default_list() {
    let service = Service::start().await;
    service.ordered(&["A", "B"]).await;
    let entries: Cache<Vec<Recommended>, Unavailable> = Cache::new(
        cache::connect_lazily(&shared_url()).unwrap(),
        CacheConfig { prefix: service.key_prefix.clone(), ..CacheConfig::new("recommendation", 1) },
    );
    let old = vec![Recommended { sku: "OLD".into(), name: "An old answer".into(), score: 1.0 }];
    let short = Duration::from_millis(1);
    eventually("a stale entry", || async {
        entries.get_or_load("A", short, || async { Ok(old.clone()) }).await.unwrap();
        let found = entries.get_or_load("A", short, || async { Err(Unavailable) }).await;
        found.ok().filter(|found| found.freshness == Freshness::Stale)
    })
    .await;

    let Service { app, test_database, database, .. } = service;
    database.close().await;
    // Connections are cut, and new ones refused.
    drop(test_database);
    let ask = async |query: &str| {
        let request = app.get(&format!("/v1/recommendations{query}")).bearer_auth(caller_token(Name::Order));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json::<contracts::recommendation::Recommendations>().await.unwrap()
    };
    let answer = ask("?sku=A").await;
    assert_eq!((answer.source, answer.items), (Source::Cache, old));
    let user = contracts::UserId::generate();
    let answer = ask(&format!("?sku=B&user_id={user}&limit=50")).await;
    assert_eq!((answer.source, answer.items), (Source::Default, default_list()));
    let ready = app.client.get(app.admin_url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 503);
}

#[tokio::test]
async fn a_database_that_does_not_answer_in_time_leaves_time_for_the_default_list() {
    let service = Service::start().await;
    service.ordered(&["A", "B"]).await;
    let mut lock = service.database.pool().begin().await.unwrap();
    sqlx::query("lock table trending in access exclusive mode").execute(&mut *lock).await.unwrap();
    let request = service.app.get("/v1/recommendations?sku=A").bearer_auth(caller_token(Name::Order));
    let response = request.header("x-envoy-expected-rq-timeout-ms", "150").send().await.unwrap();
    assert_eq!(response.status(), 200);
    let answer: contracts::recommendation::Recommendations = response.json().await.unwrap();
    assert_eq!((answer.source, answer.items.len()), (Source::Default, 5));
    lock.rollback().await.unwrap();
    assert_eq!(service.skus("?sku=A").await, (Source::Live, vec!["B".to_owned()]));
}

#[tokio::test]
async fn a_switch_begins_further_down_and_takes_effect_at_once() {
    let service = Service::start().await;
    service.ordered(&["A", "B"]).await;
    let switch = |level| {
        let mut rules = Rules::clone(&service.app.rules.current());
        rules.degrade.recommendation = level;
        service.app.rules.apply(rules, Origin::File);
    };
    switch(RecommendationLevel::Cache);
    let listed = service.recommended("?sku=A&limit=50").await;
    assert_eq!((listed.source, listed.items), (Source::Default, default_list()), "nothing was cached yet");
    switch(RecommendationLevel::Live);
    assert_eq!(service.skus("?sku=A").await, (Source::Live, vec!["B".to_owned()]));
    switch(RecommendationLevel::Cache);
    assert_eq!(service.skus("?sku=A").await, (Source::Cache, vec!["B".to_owned()]));
    switch(RecommendationLevel::Default);
    assert_eq!(service.recommended("?sku=A&limit=50").await.items, default_list());
    switch(RecommendationLevel::Off);
    assert_eq!(service.skus("?sku=A").await, (Source::Default, Vec::new()));
    let state: serde_json::Value = service.admin("/internal/state").await.json().await.unwrap();
    let degrade = &state["state"]["degrade"][0];
    assert_eq!((&degrade["level"], &degrade["degraded_total"]), (&"off".into(), &4.into()));
}
