//! Which instance of order gets a request.

use testkit::{Reply, Stub, eventually};

use crate::running::{Gateway, fine, order, ready};

fn asked(stub: &Stub) -> usize {
    stub.seen_at("GET", "/v1").len()
}

/// So many instances, the first of which fails whatever it is asked and says that it is ready.
async fn one_fails(count: usize) -> Vec<Stub> {
    let mut orders = vec![order(|_| Reply::Raw(503, "no".to_owned())).await];
    while orders.len() < count {
        orders.push(order(fine).await);
    }
    orders
}

/// Waits until twenty requests in a row went to others; how many it had until then.
async fn is_left_out(gateway: &Gateway, stub: &Stub) -> usize {
    eventually("an instance is left out", async || {
        let before = asked(stub);
        for _ in 0..20 {
            gateway.get("/v1/orders").send().await.unwrap();
        }
        (asked(stub) == before).then_some(before)
    })
    .await
}

async fn before(orders: &[Stub]) -> Option<Gateway> {
    Gateway::before(&orders.iter().collect::<Vec<_>>()).await
}

#[tokio::test]
async fn of_four_instances_one_that_fails_is_left_alone_though_it_says_that_it_is_ready() {
    let orders = one_fails(4).await;
    let Some(gateway) = before(&orders).await else { return };
    eventually("the one is ejected", async || {
        gateway.get("/v1/orders").send().await.unwrap();
        (gateway.metric("outlier_detection_ejections_active").await == 1.0).then_some(())
    })
    .await;
    let before = is_left_out(&gateway, &orders[0]).await;
    let looked = orders[0].seen_at("GET", "/readyz").len();
    // Two more health checks, which go well and do not end it.
    eventually("it is looked at", async || {
        assert_eq!(gateway.get("/v1/orders").send().await.unwrap().status(), 200);
        (orders[0].seen_at("GET", "/readyz").len() > looked + 1).then_some(())
    })
    .await;
    assert_eq!(asked(&orders[0]), before);
    assert_eq!(gateway.metric("outlier_detection_ejections_active").await, 1.0);
}

#[tokio::test]
async fn of_three_instances_none_is_taken_away() {
    let orders = one_fails(3).await;
    let Some(gateway) = before(&orders).await else { return };
    eventually("the one has failed often enough", async || {
        gateway.get("/v1/orders").send().await.unwrap();
        (gateway.metric("outlier_detection_ejections_overflow").await > 0.0).then_some(())
    })
    .await;
    assert_eq!(gateway.metric("outlier_detection_ejections_active").await, 0.0);
    let before = asked(&orders[0]);
    eventually("it is asked again", async || {
        gateway.get("/v1/orders").send().await.unwrap();
        (asked(&orders[0]) > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_instance_that_is_not_ready_gets_nothing_and_where_none_is_all_are_asked() {
    let orders = [order(fine).await, order(fine).await];
    let Some(gateway) = before(&orders).await else { return };
    gateway.counts("membership_healthy", 2.0).await;
    let unready = |seen: &testkit::stub::Seen| {
        if seen.path == "/readyz" { Reply::Raw(503, "stopping".to_owned()) } else { fine(seen) }
    };
    orders[0].behave(unready);
    gateway.counts("membership_healthy", 1.0).await;
    is_left_out(&gateway, &orders[0]).await;

    orders[1].behave(unready);
    gateway.counts("membership_healthy", 0.0).await;
    assert_eq!(gateway.get("/v1/orders").send().await.unwrap().status(), 200);

    orders[0].behave(ready(fine));
    gateway.counts("membership_healthy", 1.0).await;
}
