//! Many at once: a coupon is never redeemed too often, and nobody waits in a circle.

use contracts::{OrderId, ProblemType, UserId};
use futures_util::future::join_all;

use crate::till::{Till, refused};

#[tokio::test]
async fn of_fifty_who_want_one_of_the_last_three_redemptions_exactly_three_get_one() {
    let till = Till::open().await;
    till.issue("FEW", Some(3), None).await;
    let wanting = (0..50).map(|_| till.redeem(OrderId::generate(), UserId::generate(), "FEW", 1_000));
    let mut got = 0;
    for response in join_all(wanting).await {
        if response.status() == 201 {
            got += 1;
        } else {
            refused(response, ProblemType::CouponExhausted).await;
        }
    }
    assert_eq!((got, till.coupon("FEW").await.redeemed), (3, 3));
    assert_eq!(till.miscounted().await, Vec::<String>::new());
}

#[tokio::test]
async fn of_thirty_orders_that_one_user_sends_at_once_one_gets_the_coupon() {
    let till = Till::open().await;
    let user = UserId::generate();
    let wanting = (0..30).map(|_| till.redeem(OrderId::generate(), user, "ONCE20", 1_000));
    let mut got = 0;
    for response in join_all(wanting).await {
        if response.status() == 201 {
            got += 1;
        } else {
            refused(response, ProblemType::CouponAlreadyUsed).await;
        }
    }
    assert_eq!((got, till.coupon("ONCE20").await.redeemed), (1, 1));
}

#[tokio::test]
async fn one_order_that_is_sent_twenty_times_at_once_redeems_once() {
    let till = Till::open().await;
    till.issue("LAST", Some(1), Some(1)).await;
    let (order, user) = (OrderId::generate(), UserId::generate());
    let answers = join_all((0..20).map(|_| till.redeem(order, user, "LAST", 1_000))).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    statuses.sort_unstable();
    let mut expected = vec![200; 19];
    expected.push(201);
    assert_eq!(statuses, expected);
    assert_eq!(till.coupon("LAST").await.redeemed, 1);
}

#[tokio::test]
async fn a_redemption_and_its_release_at_once_hold_nothing_in_the_end() {
    let till = Till::open().await;
    for _ in 0..20 {
        let order = OrderId::generate();
        let redeeming = async {
            let answer = till.redeem(order, UserId::generate(), "WELCOME10", 1_000).await;
            if answer.status() != 201 {
                refused(answer, ProblemType::ReservationReleased).await;
            }
        };
        let releasing = async { assert_eq!(till.release(order).await.status(), 200) };
        tokio::join!(redeeming, releasing);
        assert_eq!(till.coupon("WELCOME10").await.redeemed, 0);
    }
}
