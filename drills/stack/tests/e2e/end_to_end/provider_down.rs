//! A payment provider that is wholly away: small orders wait, large ones are refused, and nothing is guessed.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::turn,
};

/// The breakers try again soon, and a small order is one of a few tins of tea.
const RULES: &str = r#"
[degrade]
defer_max_minor = 3000
[downstream.provider.breaker]
open_ms = 500
[downstream.provider.breaker.ramp]
steps = [{ percent = 50, duration_ms = 500 }, { percent = 100, duration_ms = 500 }]
[downstream.payment.breaker.ramp]
steps = [{ percent = 100, duration_ms = 500 }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn without_the_provider_small_orders_wait_and_large_ones_are_refused() {
    let system = turn().await;
    system.rule(83, RULES).await;
    for channel in ["provider-primary", "provider-backup"] {
        system.kill(channel);
    }
    let small = order_of("TEA-EARLGREY-100", 1, "tok_approve");
    let large = order_of("TEA-EARLGREY-100", 50, "tok_approve");
    let waiting = join_all((0..10).map(async |_| system.shop.place(&fresh_key(), &small).await)).await;
    let mut refused = Vec::new();
    for turn in 0..5 {
        refused.push(system.shop.place_let_in(turn, &fresh_key(), &large).await);
    }
    for channel in ["provider-primary", "provider-backup"] {
        system.restart(channel, &[]);
    }
    for told in refused {
        assert_eq!((told.status, &told.body["type"]), (503, &json!("urn:problem:payment-unavailable")), "{told:?}");
    }
    for told in waiting {
        let payment: &Value = &told.body["payment"]["state"];
        assert_eq!((told.status, payment), (202, &json!("deferred")), "{told:?}");
        system.shop.once(told.body["id"].as_str().unwrap(), "confirmed").await;
    }
    system.rule(84, "").await;
    audit::clean(&system).await;
}
