//! What an operator does with the page, whatever it is for.

use testkit::eventually;

use super::{
    browser::Browser,
    system::{OPERATOR, System},
};

/// Signed in, at the map, with a first snapshot on it.
pub async fn signed_in(system: &System) -> Browser {
    let browser = Browser::open().await;
    browser.goto(&system.console()).await;
    sign_in(&browser, OPERATOR.1).await;
    // A name has five tries at once and then one in ten seconds, and these tests are many: whoever is told to wait tries
    // again until it may; a try that is refused costs none.
    eventually("the operator is in", async || {
        if browser.run("return document.body.dataset.signedIn === 'yes'", vec![]).await == true {
            return Some(());
        }
        let again = "if (document.getElementById('login-error').textContent.includes('Try again in'))
                         document.querySelector('#login-form button').click();";
        browser.run(again, vec![]).await;
        None
    })
    .await;
    browser.until("the map is drawn", "document.querySelector('[data-hop=\"order→payment\"]')").await;
    browser
}

pub async fn sign_in(browser: &Browser, password: &str) {
    browser.fill("#login-form [name=name]", OPERATOR.0).await;
    browser.fill("#login-form [name=password]", password).await;
    browser.click("#login-form button").await;
}

/// By its place in the list of views, as one clicks it.
pub async fn view(browser: &Browser, name: &str) {
    browser.click(&format!("#nav a[href='#{name}']")).await;
    browser.find(&format!("#view-{name}")).await;
}

/// Answers the question that is open.
pub async fn confirm(browser: &Browser, reason: &str) {
    browser.fill("dialog [name=reason]", reason).await;
    browser.click("dialog [type=submit]").await;
    browser.until("the dialog is done", "!document.querySelector('dialog')").await;
}
