//! Without the console: the page says what it shows, the shop goes on, and the page comes back by itself.

use super::{console::signed_in, system::turn};

#[tokio::test(flavor = "multi_thread")]
async fn without_the_console_the_page_says_that_it_is_stale_the_shop_sells_and_both_come_back() {
    let system = turn().await;
    let browser = signed_in(&system).await;
    browser.until("it is live", "document.body.dataset.stream === 'live'").await;
    system.kill("console");
    browser.until("it is stale", "document.body.dataset.stream === 'stale'").await;
    assert!(browser.text("#stream").await.starts_with("Stale since"));
    assert!(browser.text(".stale-note").await.contains("the console does not answer"));
    browser.picture("stale").await;
    let (status, order) = system.order("tok_approve").await;
    assert_eq!(status, 201, "{order}");

    system.restart("console");
    browser.until("it is live again", "document.body.dataset.stream === 'live'").await;
    browser.until("it says so", "document.querySelector('.stale-note').hidden").await;
    browser.close(&["net::ERR_", "/v1/events"]).await;
}
