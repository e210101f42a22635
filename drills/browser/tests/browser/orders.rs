//! Getting in, and an order from the form to its end.

use testkit::eventually;

use super::{
    browser::Browser,
    console::{sign_in, signed_in, view},
    system::{OPERATOR, turn},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_shows_nothing_and_whoever_signs_out_is_out() {
    let system = turn().await;
    let browser = Browser::open().await;
    browser.goto(&system.console()).await;
    sign_in(&browser, "guessed").await;
    let refused = eventually("a refusal", async || {
        let said = browser.run("return document.getElementById('login-error').textContent", vec![]).await;
        said.as_str().filter(|said| !said.is_empty()).map(str::to_owned)
    });
    assert_eq!(refused.await, "Name and password do not belong together.");
    browser
        .until("nothing is to be seen", "document.getElementById('app').hidden && !document.querySelector('.hop')")
        .await;

    sign_in(&browser, OPERATOR.1).await;
    browser.find("[data-hop='order→payment']").await;
    // It is a session, not a page: it holds after a reload.
    browser.refresh().await;
    browser.find("[data-hop='order→payment']").await;
    browser.click("#sign-out").await;
    browser.find("#login-form").await;
    browser.refresh().await;
    browser.find("#login-form").await;
    browser.close(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_answer_is_lost_is_placed_and_watched_until_it_is_confirmed() {
    let system = turn().await;
    let browser = signed_in(&system).await;
    view(&browser, "orders").await;
    browser.fill(".place [name=user]", "ada").await;
    browser.choose(".place [name=payment_method]", "tok_lost_reply").await;
    browser.click(".place [type=submit]").await;
    browser.until("it is pending", "document.querySelector('.place-answer .note.is-wait')").await;
    assert!(browser.text(".place-answer").await.contains("202 payment pending"));

    // The page watches by itself.
    browser.until("it is confirmed", "document.querySelector('.order-summary[data-status=confirmed]')").await;
    let history = browser.text(".timeline").await;
    for step in ["created", "stock reserved", "payment in flight", "payment pending", "confirmed"] {
        assert!(history.contains(step), "{step}: {history}");
    }
    let id = browser.run("return document.querySelector('.order-summary').dataset.order", vec![]).await;
    browser
        .until(
            "it is in the list",
            &format!("document.querySelector('.orders-list a[href=\"#orders/{}\"]')", id.as_str().unwrap()),
        )
        .await;

    browser.choose(".place [name=payment_method]", "tok_decline").await;
    browser.click(".place [type=submit]").await;
    browser.until("it is declined", "document.querySelector('.place-answer')?.textContent.includes('402')").await;
    browser.choose(".filter [name=status]", "rejected").await;
    browser.until("only those are listed", "document.querySelectorAll('.orders-list tbody tr').length && [...document.querySelectorAll('.orders-list tbody tr')].every((row) => row.dataset.status === 'rejected')").await;
    browser.close(&["402 (Payment Required)"]).await;
}
