//! A message that nobody could use, sent again from the page.

use sqlx::PgPool;

use super::{
    console::{confirm, signed_in, view},
    system::turn,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_read_and_sent_again() {
    let system = turn().await;
    let server = system.status()["stores"]["postgres"]["url"].as_str().unwrap().to_owned();
    let orders = PgPool::connect(&format!("{}/order", server.trim_end_matches('/'))).await.unwrap();
    let poison = r#"{"poison": true}"#;
    sqlx::query("insert into outbox (event_id, topic, key, payload) values (gen_random_uuid(), 'orders', 'k', $1)")
        .bind(poison)
        .execute(&orders)
        .await
        .unwrap();

    let browser = signed_in(&system).await;
    browser
        .until("the list of views tells of it", "!document.querySelector('#nav a[href=\"#reviews\"] .badge').hidden")
        .await;
    view(&browser, "reviews").await;
    browser.click("[data-letter] details summary").await;
    assert!(browser.text("[data-letter] details").await.contains("poison"));
    browser.click("[data-letter][data-replayed=false] .button").await;
    confirm(&browser, "Its consumer was mended").await;
    browser.until("it is marked", "document.querySelector('[data-letter][data-replayed=true]')").await;
    browser.close(&[]).await;
}
