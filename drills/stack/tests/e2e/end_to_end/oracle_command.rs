//! `./dev oracle` on a system that runs, with the log of what its clients were told.

use serde_json::json;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::{dev, turn},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_that_all_is_well_and_finds_what_is_not() {
    let system = turn().await;
    let placed = system.shop.place(&fresh_key(), &order_of("TEA-EARLGREY-100", 1, "tok_approve")).await;
    audit::clean(&system).await;
    let base = system.base.to_string();
    let log = system.folder().join("answers.jsonl");
    let consult = |more: &[&str]| {
        let log = log.to_str().unwrap();
        dev(&[&["oracle", "--port-base", &base, "--answers", log], more].concat())
    };
    let said = consult(&["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((said.status.code(), report["unquiet"].clone()), (Some(0), json!([])), "{report}");
    assert_eq!(report["invariants"].as_array().unwrap().len(), 9);

    let order = system.database("order").await;
    let tamper = |reverse: bool| {
        let (id, by) =
            (placed.body["id"].as_str().unwrap().parse::<uuid::Uuid>().unwrap(), if reverse { -1 } else { 1 });
        let order = order.clone();
        async move {
            sqlx::query(
                "update orders set subtotal_minor = subtotal_minor + $2, total_minor = total_minor + $2 where id = $1",
            )
            .bind(id)
            .bind(i64::from(by))
            .execute(&order)
            .await
            .unwrap();
        }
    };
    tamper(false).await;
    let said = consult(&[]);
    tamper(true).await;
    let text = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(1), "{text}");
    assert!(text.contains("VIOLATED") && text.contains(placed.body["id"].as_str().unwrap()), "{text}");
}
