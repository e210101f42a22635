//! Every view, light and dark, wide and narrow: a picture of each to be looked at, nothing that keeps people out, and
//! nothing beside the edge.

use serde_json::{Value, json};

use super::{
    browser::{Browser, axe},
    console::{signed_in, view},
    system::turn,
};

const VIEWS: [&str; 6] = ["map", "orders", "rules", "switches", "reviews", "faults"];
const WIDE: (&str, u32, u32) = ("wide", 1440, 900);
const NARROW: (&str, u32, u32) = ("narrow", 360, 740);

/// Names of what has none, ids that are there twice, levels of headings that are left out: what can be told without help.
const NAMELESS: &str = r#"
    const seen = (one) => one.checkVisibility({visibilityProperty: true});
    const named = (one) => one.ariaLabel || one.textContent.trim() || one.title || one.alt || one.labels?.[0]?.textContent.trim()
        || (one.getAttribute('aria-labelledby') ?? '').split(' ').some((id) => document.getElementById(id)?.textContent.trim());
    const wrong = [...document.querySelectorAll('a[href], button, input, select, textarea, [role=meter], [role=region], dialog')]
        .filter((one) => seen(one) && !named(one)).map((one) => `no name: ${one.outerHTML.slice(0, 120)}`);
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    wrong.push(...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `twice: ${id}`));
    if ([...document.querySelectorAll('h1')].filter(seen).length !== 1) wrong.push('not one h1');
    if ([...document.querySelectorAll('main')].filter(seen).length !== 1) wrong.push('not one main');
    return wrong;
"#;

const BESIDE_THE_EDGE: &str =
    "return Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)";

const AXE: &str = r#"
    const done = arguments[0];
    axe.run(document, {resultTypes: ['violations']}).then((found) => done(found.violations.map((one) =>
        `${one.id}: ${one.help}: ${one.nodes.map((node) => node.target.join(' ')).slice(0, 5).join(', ')}`)), (error) => done([String(error)]));
"#;

async fn look_at(browser: &Browser, name: &str, axe: Option<&str>) {
    browser
        .until(
            &format!("{name} is drawn"),
            "![...document.querySelectorAll('.is-loading')].some((one) => one.checkVisibility())",
        )
        .await;
    browser.picture(name).await;
    let nothing = json!([]);
    assert_eq!(browser.run(BESIDE_THE_EDGE, vec![]).await, 0, "{name} is wider than its window");
    assert_eq!(browser.run(NAMELESS, vec![]).await, nothing, "{name}");
    if let Some(axe) = axe {
        let found: Value = browser.run_async(&format!("{axe};{AXE}"), vec![]).await;
        assert_eq!(found, nothing, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_for_everybody_in_light_and_dark_wide_and_narrow() {
    let system = turn().await;
    let axe = axe();
    if let Err(why) = &axe {
        eprintln!("axe skipped: {why}");
    }
    let axe = axe.ok();
    let (status, order) = system.order("tok_approve").await;
    assert_eq!(status, 201, "{order}");
    let order = order["id"].as_str().unwrap();

    let browser = Browser::open().await;
    browser.goto(&system.console()).await;
    browser.find("#login-form").await;
    for scheme in ["light", "dark"] {
        for (size, width, height) in [WIDE, NARROW] {
            browser.prefers(scheme).await;
            browser.has_size(width, height).await;
            look_at(&browser, &format!("login-{size}-{scheme}"), axe.as_deref()).await;
        }
    }
    browser.close(&[]).await;

    let browser = signed_in(&system).await;
    for scheme in ["light", "dark"] {
        for (size, width, height) in [WIDE, NARROW] {
            browser.prefers(scheme).await;
            browser.has_size(width, height).await;
            for name in VIEWS {
                view(&browser, name).await;
                look_at(&browser, &format!("{name}-{size}-{scheme}"), axe.as_deref()).await;
            }
            browser.run("location.hash = arguments[0]", vec![json!(format!("#orders/{order}"))]).await;
            browser.find(".timeline").await;
            look_at(&browser, &format!("order-{size}-{scheme}"), axe.as_deref()).await;
            browser.run("location.hash = '#rules/1'", vec![]).await;
            browser.find(".version-top").await;
            look_at(&browser, &format!("version-{size}-{scheme}"), axe.as_deref()).await;
        }
    }
    browser.has_size(3000, 1400).await;
    view(&browser, "map").await;
    look_at(&browser, "map-very-wide-dark", axe.as_deref()).await;
    browser.close(&[]).await;
}

/// With the keyboard alone: past what repeats, through a question, and back to where it was asked.
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_reached_by_keys_and_a_question_gives_the_focus_back() {
    let system = turn().await;
    let browser = signed_in(&system).await;
    view(&browser, "switches").await;
    let focus = "document.activeElement";
    browser.until("the view's title has the focus", &format!("{focus}.id === 'title-switches'")).await;
    browser.click("[data-feature=coupon] [data-value=pending]").await;
    browser.until("the reason has the focus", &format!("{focus}.name === 'reason'")).await;
    browser.press("\u{e00c}").await; // Escape
    browser
        .until("it is back", &format!("!document.querySelector('dialog') && {focus}.dataset.value === 'pending'"))
        .await;

    // Every stop can be seen, none holds on to the focus, and all of them come round.
    let mut stops = Vec::new();
    for _ in 0..80 {
        browser.press("\u{e004}").await; // Tab
        let stop = browser
            .run(
                "const one = document.activeElement; const style = getComputedStyle(one);
                 return [one.tagName + ' ' + (one.textContent.trim().slice(0, 30) || one.name), style.outlineStyle !== 'none' || one === document.body]",
                vec![],
            )
            .await;
        assert_eq!(stop[1], true, "{stop} shows no focus");
        stops.push(stop[0].as_str().unwrap().to_owned());
    }
    for name in ["Skip to content", "Rules", "Sign out", "live"] {
        assert!(stops.iter().any(|stop| stop.contains(name)), "{name} is never reached: {stops:?}");
    }
    browser.close(&[]).await;
}
