//! Rules in the editor: a bad one, a good one's way to all instances and back, and two authors at once.

use fantoccini::error::CmdError;
use serde_json::json;

use super::{
    browser::Browser,
    console::{confirm, signed_in, view},
    system::{RULES, System, turn},
};

/// Puts a text in as pasting does, then presses a key: what is checked is what was typed.
async fn write(browser: &Browser, text: &str) -> Result<(), CmdError> {
    let area = browser.find(".editor-text").await;
    browser.until("the editor has its text", "document.querySelector('.editor-text').value.length > 0").await;
    browser.run("document.querySelector('.editor-text').value = arguments[0]", vec![json!(text)]).await;
    area.send_keys(" ").await
}

async fn publish(browser: &Browser, reason: &str) {
    browser.fill(".compose [name=owner]", "tests").await;
    browser.fill(".compose [name=reason]", reason).await;
    browser.click(".compose [type=submit]").await;
}

/// The version that is shown.
async fn shown(browser: &Browser) -> i64 {
    browser
        .until("the draft is shown", "document.querySelector('.version-panel:not([hidden])[data-state=draft]')")
        .await;
    let number = browser.run("return Number(location.hash.split('/')[1])", vec![]).await;
    number.as_i64().unwrap()
}

async fn instance_has(browser: &Browser, instance: &str, version: i64) {
    let what = format!("{instance} has version {version}");
    browser
        .until(&what, &format!("document.querySelector('[data-instance={instance}]')?.dataset.version === '{version}'"))
        .await;
}

async fn in_force(system: &System) -> i64 {
    system.ask("/v1/rules?limit=1").await["active"].as_i64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_rule_is_refused_at_its_line_and_nothing_typed_is_lost() {
    let system = turn().await;
    let browser = signed_in(&system).await;
    view(&browser, "rules").await;
    let bad = format!("{RULES}[downstream.coupon.breaker]\nfailure_ratio = 3\n");
    let line = bad.lines().count();
    write(&browser, &bad).await.unwrap();
    // While one types …
    browser.find(&format!(".editor-problems [data-line='{line}']")).await;
    let mark = browser.run("return document.querySelector('.editor-mark').textContent", vec![]).await;
    // … and by the console when it is published all the same.
    publish(&browser, "Too much").await;
    browser
        .until(
            "it is refused",
            "document.querySelector('.conflict')?.textContent.includes('Refused, and nothing is lost')",
        )
        .await;
    let told = browser.text(&format!(".editor-problems [data-line='{line}']")).await;
    assert!(
        told.contains("downstream.coupon.breaker.failure_ratio") && told.contains(mark.as_str().unwrap().trim()),
        "{told} {mark}"
    );
    browser.picture("rules-refused").await;
    // The text outlives the page.
    browser.refresh().await;
    browser
        .until("the text is back", "document.querySelector('.editor-text')?.value.includes('failure_ratio = 3')")
        .await;
    browser.close(&["422 (Unprocessable"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_rule_goes_to_one_instance_then_to_all_and_is_rolled_back() {
    let system = turn().await;
    let before = in_force(&system).await;
    let browser = signed_in(&system).await;
    view(&browser, "rules").await;
    write(&browser, &format!("{RULES}[downstream.coupon.breaker]\nopen_ms = 9000\n")).await.unwrap();
    browser.until("it is valid", "document.querySelector('.editor-summary').dataset.level === 'ok'").await;
    publish(&browser, "Coupon may rest for less").await;
    let version = shown(&browser).await;
    browser.find("[data-path='downstream.coupon.breaker.open_ms']").await;

    browser.click(".version-top .button:not(.is-primary)").await;
    browser.click("dialog [value=order-0]").await;
    confirm(&browser, "One of two").await;
    instance_has(&browser, "order-0", version).await;
    instance_has(&browser, "order-1", before).await;
    browser.find(".version-panel[data-state=canary]").await;
    browser.click(".version-top .is-primary").await;
    confirm(&browser, "It holds").await;
    for instance in ["order-1", "inventory-0", "payment-0", "coupon-0", "recommendation-0"] {
        instance_has(&browser, instance, version).await;
    }
    browser.find(".version-panel[data-state=active]").await;
    browser.click(".version-top .is-danger").await;
    confirm(&browser, "Not what we wanted").await;
    for instance in ["order-0", "order-1", "payment-0"] {
        instance_has(&browser, instance, before).await;
    }
    browser.find(".version-panel[data-state=rolled_back]").await;
    browser.close(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_overtaken_is_told_and_keeps_the_text() {
    let system = turn().await;
    let browser = signed_in(&system).await;
    view(&browser, "rules").await;
    write(&browser, &format!("{RULES}# mine\n")).await.unwrap();
    let theirs = system.publish(&format!("{RULES}[downstream.coupon.breaker]\nopen_ms = 8000\n"), "Faster").await;
    browser
        .until(
            "it is told",
            &format!("document.querySelector('.conflict')?.textContent.includes('Version {theirs} was published')"),
        )
        .await;
    browser.find(".conflict [data-path='downstream.coupon.breaker.open_ms']").await;
    publish(&browser, "Mine").await;
    browser.until("the text is there", "document.querySelector('.editor-text').value.includes('# mine')").await;
    browser.click(".conflict .button").await;
    browser.click(".compose [type=submit]").await;
    assert_eq!(shown(&browser).await, theirs + 1);
    browser.close(&["409 (Conflict)"]).await;
}
