//! What cannot be looked at is no clean bill.

use std::time::Duration;

use testkit::Reply;

use crate::scene::Scene;

async fn refused(scene: &Scene) -> String {
    let judged = oracle::consult(&scene.sources(), Vec::new(), Duration::ZERO).await;
    format!("{:#}", judged.unwrap_err())
}

#[tokio::test]
async fn a_database_that_is_away_is_named() {
    let scene = Scene::new().await;
    scene.coupon.stop().await;
    assert!(refused(&scene).await.contains("the database of coupon does not answer"));
}

#[tokio::test]
async fn a_ledger_that_is_away_is_named() {
    let scene = Scene::new().await;
    scene.channels[1].stub.behave(|_| Reply::Close);
    let said = refused(&scene).await;
    assert!(said.contains(&format!("the ledger at {} cannot be read", scene.channels[1].stub.url())), "{said}");
}

#[tokio::test]
async fn a_table_that_is_not_there_is_an_error() {
    let scene = Scene::new().await;
    scene.payment.run("alter table attempts rename to tries").await;
    assert!(refused(&scene).await.contains("the payment database cannot be read"));
}
