//! Many at once: nothing is promised twice, nobody waits in a circle, and the sums add up.

use std::collections::HashMap;

use contracts::{OrderId, ProblemType};
use futures_util::future::join_all;

use crate::shop::{Shop, refused};

#[tokio::test]
async fn of_fifty_who_want_the_last_unit_exactly_one_gets_it() {
    let shop = Shop::open().await;
    let wanting = (0..50).map(|_| shop.reserve(OrderId::generate(), &[("POSTER-LAST-ONE", 1)]));
    let mut got = 0;
    for response in join_all(wanting).await {
        if response.status() == 201 {
            got += 1;
        } else {
            let problem = refused(response, ProblemType::OutOfStock).await;
            assert_eq!(problem.extra["available"], 0);
        }
    }
    assert_eq!(got, 1);
    assert_eq!(shop.units("POSTER-LAST-ONE").await, (1, 1, 0));
}

#[tokio::test]
async fn orders_for_the_same_products_in_opposite_orders_never_wait_in_a_circle() {
    let shop = Shop::open().await;
    let skus = ["LOOP-A", "LOOP-B", "LOOP-C", "LOOP-D"];
    for sku in skus {
        shop.sell(sku, 30).await;
    }
    let forwards: Vec<(&str, i64)> = skus.iter().map(|sku| (*sku, 1)).collect();
    let backwards: Vec<(&str, i64)> = forwards.iter().rev().copied().collect();
    let orders: Vec<(OrderId, &[(&str, i64)])> =
        (0..60).map(|i| (OrderId::generate(), if i % 2 == 0 { &forwards[..] } else { &backwards[..] })).collect();
    let answers = join_all(orders.iter().map(|(order, items)| shop.reserve(*order, items))).await;
    let mut counts = HashMap::new();
    for answer in answers {
        *counts.entry(answer.status().as_u16()).or_insert(0) += 1;
    }
    assert_eq!(counts, HashMap::from([(201, 30), (409, 30)]));

    // Half of them die and half are confirmed, all at once again.
    let settled = join_all(orders.iter().enumerate().map(async |(i, (order, _))| {
        if i % 4 < 2 { shop.release(*order).await } else { shop.commit(*order).await }.status().as_u16()
    }));
    let settled = settled.await;
    assert!(settled.iter().all(|status| matches!(status, 200 | 404)), "{settled:?}");
    assert_eq!(shop.unaccounted().await, Vec::<String>::new());
    let levels = [
        shop.units("LOOP-A").await,
        shop.units("LOOP-B").await,
        shop.units("LOOP-C").await,
        shop.units("LOOP-D").await,
    ];
    assert!(levels.iter().all(|level| *level == levels[0] && level.1 == 0), "{levels:?}");
}

#[tokio::test]
async fn one_order_that_is_sent_twenty_times_at_once_reserves_once() {
    let shop = Shop::open().await;
    let order = OrderId::generate();
    let items = [("CUP-MUG-BLUE", 2), ("CUP-MUG-SAND", 1)];
    let answers = join_all((0..20).map(|_| shop.reserve(order, &items))).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    statuses.sort_unstable();
    let mut expected = vec![200; 19];
    expected.push(201);
    assert_eq!(statuses, expected);
    assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 2, 0));
}

#[tokio::test]
async fn a_reservation_and_its_release_at_once_hold_nothing_in_the_end() {
    let shop = Shop::open().await;
    for _ in 0..20 {
        let order = OrderId::generate();
        let reserving = async {
            let answer = shop.reserve(order, &[("CUP-MUG-BLUE", 1)]).await;
            if answer.status() != 201 {
                refused(answer, ProblemType::ReservationReleased).await;
            }
        };
        let releasing = async { assert_eq!(shop.release(order).await.status(), 200) };
        tokio::join!(reserving, releasing);
        assert_eq!(shop.units("CUP-MUG-BLUE").await, (10_000, 0, 0));
    }
}

#[tokio::test]
async fn a_delivery_that_is_told_of_ten_times_at_once_counts_once() {
    let shop = Shop::open().await;
    let answers = join_all((0..10).map(|_| shop.restock("POSTER-SOLD-OUT", 5, "note-1"))).await;
    assert!(answers.iter().all(|answer| answer.status() == 200));
    assert_eq!(shop.units("POSTER-SOLD-OUT").await, (5, 0, 0));
}
