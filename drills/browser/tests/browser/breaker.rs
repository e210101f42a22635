//! A fault on a link, what the guards make of it, and the way back, as the map shows them.

use super::{
    console::{signed_in, view},
    system::turn,
};

/// Keeps every state that the hop goes through: none is too short to be seen.
const WATCH: &str = r#"
    const hop = document.querySelector('[data-hop="order→payment"]');
    window.seen = [];
    const look = () => window.seen.push(`${hop.dataset.breaker} ${hop.dataset.ramp ?? ''}`.trim());
    new MutationObserver(look).observe(hop, {attributes: true, attributeFilter: ['data-breaker', 'data-ramp']});
    look();
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_payment_opens_the_breaker_on_the_map_and_without_the_fault_it_ramps_up_and_closes() {
    let system = turn().await;
    let browser = signed_in(&system).await;
    view(&browser, "faults").await;
    browser.choose(".inject [name=link]", "order->payment").await;
    browser.choose(".inject [name=kind]", "latency").await;
    browser.fill(".inject [name=latency_ms]", "3000").await;
    browser.click(".inject [type=submit]").await;
    browser.find("[data-link='order->payment'] .fault").await;

    view(&browser, "map").await;
    browser.run(WATCH, vec![]).await;
    let customers = system.customers();
    browser.until("the breaker opens", "window.seen.some((state) => state.startsWith('open'))").await;
    browser
        .until("the headline says so", "/payment: breaker/i.test(document.getElementById('headline').textContent)")
        .await;
    assert!(browser.text("[data-hop='order→payment']").await.contains("injected: latency"));
    browser
        .until("something is refused", "document.querySelector('[data-tile=refused]').dataset.level === 'warn'")
        .await;
    browser.picture("breaker-open").await;

    view(&browser, "faults").await;
    browser.click("[data-link='order->payment'] .fault .button").await;
    browser.until("the fault is gone", "!document.querySelector('.fault')").await;
    view(&browser, "map").await;
    browser.until("it ramps up", "window.seen.some((state) => state.startsWith('ramping'))").await;
    browser.picture("breaker-ramping").await;
    browser
        .until("it closes", "document.querySelector('[data-hop=\"order→payment\"]').dataset.breaker === 'closed'")
        .await;
    drop(customers);
    browser.close(&[]).await;
}
