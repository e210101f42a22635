//! What an operator does with the page, whatever it is for.

use super::{
    browser::Browser,
    system::{OPERATOR, System},
};

/// Signed in, at the map, with a first snapshot on it.
pub async fn signed_in(system: &System) -> Browser {
    let browser = Browser::open().await;
    browser.goto(&system.console()).await;
    sign_in(&browser, OPERATOR.1).await;
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
