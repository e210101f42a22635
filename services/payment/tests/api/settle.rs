//! Two paths to one outcome: the row is decided on as it is, not as it was read before the call.

use std::time::Duration;

use contracts::AttemptId;
use serde_json::json;
use testkit::{Reply, eventually};

use crate::scene::{Answer, Scene, approves, charge, declines};

/// Charges, and moves the row while the provider has the request.
async fn charge_while(reply: Reply, moved: &'static str) -> (Scene, AttemptId, Answer) {
    let scene = Scene::start(Reply::Late(Duration::from_millis(300), Box::new(reply))).await;
    let id = AttemptId::generate();
    let moving = async {
        eventually("the provider sees the charge", || async { (scene.charges() == 1).then_some(()) }).await;
        sqlx::query(moved).bind(id.as_uuid()).execute(&scene.pool).await.unwrap();
    };
    let body = charge();
    let (answer, ()) = tokio::join!(scene.put(id, &body), moving);
    (scene, id, answer)
}

const UNKNOWN: &str = "update attempts set state = 'unknown', version = version + 1 where id = $1";
const APPROVED: &str =
    "update attempts set state = 'approved', provider_ref = 'ch_1', version = version + 1 where id = $1";
const OTHER_DISPATCH: &str = "update attempts set dispatch_no = 2, version = version + 1 where id = $1";

#[tokio::test]
async fn an_approval_settles_an_attempt_that_was_given_up_as_unknown_meanwhile() {
    let (scene, id, answer) = charge_while(approves(), UNKNOWN).await;
    assert_eq!((answer.status, &answer.body["state"]), (200, &json!("approved")));
    let last = scene.history(id).await.pop().unwrap();
    assert_eq!(last, (Some("unknown".to_owned()), "approved".to_owned(), "approved".to_owned()));
    assert_eq!(scene.announced(id).await.len(), 1);
}

#[tokio::test]
async fn an_approval_that_was_recorded_by_another_path_is_not_announced_again() {
    let (scene, id, answer) = charge_while(approves(), APPROVED).await;
    assert_eq!((answer.status, &answer.body["provider_ref"]), (200, &json!("ch_1")));
    assert_eq!(scene.announced(id).await, []);
}

#[tokio::test]
async fn a_decline_does_not_undo_an_approval() {
    let (scene, id, answer) = charge_while(declines(), APPROVED).await;
    assert_eq!((answer.status, &answer.body["state"]), (200, &json!("approved")));
    assert_eq!(scene.state(id).await.as_deref(), Some("approved"));
    assert_eq!(scene.announced(id).await, []);
}

#[tokio::test]
async fn the_end_of_one_dispatch_says_nothing_of_a_later_one() {
    let (scene, id, answer) = charge_while(Reply::Close, OTHER_DISPATCH).await;
    answer.is_unknown();
    assert_eq!(scene.state(id).await.as_deref(), Some("dispatched"));
}
