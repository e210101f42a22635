//! Leases.

use std::time::Duration;

use durable::lease;
use uuid::Uuid;

use testkit::eventually;

use crate::database;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn one_holder_has_it_until_it_is_released() {
    let pool = database::fresh().await;
    let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
    let held = lease::acquire(&pool, "x", a, LONG).await.unwrap().unwrap();
    assert!(lease::acquire(&pool, "x", b, LONG).await.unwrap().is_none());
    assert!(lease::acquire(&pool, "y", b, LONG).await.unwrap().is_some());
    held.release(&pool).await.unwrap();
    assert!(lease::acquire(&pool, "x", b, LONG).await.unwrap().is_some());
}

#[tokio::test]
async fn an_expired_lease_passes_on_with_a_higher_token_and_its_old_holder_can_do_nothing() {
    let pool = database::fresh().await;
    let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
    let mut old = lease::acquire(&pool, "x", a, SHORT).await.unwrap().unwrap();
    let mut new = eventually("it expired", async || lease::acquire(&pool, "x", b, LONG).await.unwrap()).await;
    assert!(new.token() > old.token());
    assert!(!old.renew(&pool).await.unwrap());
    old.release(&pool).await.unwrap();
    assert!(new.renew(&pool).await.unwrap());
    assert!(lease::acquire(&pool, "x", a, LONG).await.unwrap().is_none());
}

#[tokio::test]
async fn a_renewed_lease_outlives_its_first_expiry_and_an_expired_one_cannot_be_renewed() {
    let pool = database::fresh().await;
    let mut held = lease::acquire(&pool, "x", Uuid::new_v4(), LONG).await.unwrap().unwrap();
    let first = held.valid_until();
    assert!(held.renew(&pool).await.unwrap());
    assert!(held.valid_until() > first);
    sqlx::query("update leases set expires_at = now() - interval '1 second'").execute(&pool).await.unwrap();
    assert!(!held.renew(&pool).await.unwrap());
}

#[tokio::test]
async fn a_token_is_never_given_twice() {
    let pool = database::fresh().await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let held = lease::acquire(&pool, "x", Uuid::new_v4(), LONG).await.unwrap().unwrap();
        tokens.push(held.token());
        held.release(&pool).await.unwrap();
    }
    assert_eq!(tokens, [1, 2, 3]);
}
