//! Switches: one click with a reason, and one click back.

use super::{
    console::{confirm, signed_in, view},
    system::turn,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_is_switched_with_a_reason_and_taken_back_with_one_click() {
    let system = turn().await;
    let browser = signed_in(&system).await;
    view(&browser, "switches").await;
    browser.click("[data-feature=recommendation] [data-value=off]").await;
    // Without a reason nothing happens.
    browser.click("dialog [type=submit]").await;
    browser.until("a reason is asked for", "document.querySelector('dialog .field-error').textContent").await;
    confirm(&browser, "Suggestions are slow tonight").await;
    browser.find("[data-feature=recommendation][data-value=off]").await;
    let value = async || {
        let switches = system.ask("/v1/switches").await;
        let all = switches["items"].as_array().unwrap().clone();
        all.iter().find(|one| one["feature"] == "recommendation").unwrap()["value"].clone()
    };
    assert_eq!(value().await, "off");
    browser
        .until(
            "the headline says so",
            "/recommendation switched to off/i.test(document.getElementById('headline').textContent)",
        )
        .await;
    browser
        .until(
            "who did it is told",
            "document.querySelector('.audit-panel').textContent.includes('Suggestions are slow tonight')",
        )
        .await;

    browser.click("[data-feature=recommendation] > .button").await;
    browser.find("[data-feature=recommendation][data-value=live]").await;
    assert_eq!(value().await, "live");
    browser.close(&[]).await;
}
