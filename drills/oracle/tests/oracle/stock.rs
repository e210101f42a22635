//! (4)

use crate::scene::Scene;

#[tokio::test]
async fn units_that_are_lost_or_counted_twice_are_found() {
    let scene = Scene::new().await;
    scene.confirmed("TEA").await;
    scene.confirmed("CUP").await;
    scene.pending("POT", "unknown").await;
    // The database itself refuses all this.
    scene
        .inventory
        .run(
            "alter table stock drop constraint stock_received_check, drop constraint stock_reserved_check;
             update stock set received = received + 1 where sku = 'TEA';
             update stock set sold = sold + 2, on_hand = on_hand - 2 where sku = 'CUP';
             update stock set reserved = reserved + 7 where sku = 'POT'",
        )
        .await;
    let report = scene.judged().await;
    let offenders = [
        ("product TEA".to_owned(), "101 received, 98 on hand, 2 sold"),
        ("product CUP".to_owned(), "4 sold, and confirmed orders took 2"),
        ("product CUP".to_owned(), "4 sold, and 2 committed"),
        ("product POT".to_owned(), "9 reserved, and 2 held"),
    ];
    Scene::expect(&report, 4, &offenders);
}

#[tokio::test]
async fn stock_that_is_negative_or_more_than_there_is_and_a_product_that_is_gone_are_found() {
    let scene = Scene::new().await;
    scene.pending("POT", "unknown").await;
    scene.inventory.run("insert into products values ('JUG', 'Thing', 500, 'USD')").await;
    scene.inventory.run("insert into stock (sku, on_hand, received) values ('JUG', 100, 100)").await;
    scene.confirmed("JUG").await;
    // The database itself refuses all this but the last. Each but CUP's breaks one rule alone.
    scene
        .inventory
        .run(
            "alter table stock drop constraint stock_on_hand_check, drop constraint stock_reserved_check,
                               drop constraint stock_sold_check;
             update stock set on_hand = -1, received = -1 where sku = 'TEA';
             update stock set on_hand = 102, sold = -2, reserved = -1 where sku = 'CUP';
             update stock set on_hand = 1, received = 1 where sku = 'POT';
             delete from stock where sku = 'JUG'",
        )
        .await;
    let offenders = [
        ("product TEA".to_owned(), "-1 on hand, 0 reserved, 0 sold"),
        ("product CUP".to_owned(), "102 on hand, -1 reserved, -2 sold"),
        ("product POT".to_owned(), "1 on hand, 2 reserved, 0 sold"),
        ("product JUG".to_owned(), "reserved or sold, and not in stock"),
    ];
    Scene::expect(&scene.judged().await, 4, &offenders);
}

#[tokio::test]
async fn reservations_that_do_not_fit_their_orders_are_found() {
    let scene = Scene::new().await;
    let set = async |sale: &crate::sale::Sale, state: &str| {
        scene.inventory.run(format!("update reservations set state = '{state}' where order_id = '{}'", sale.id)).await;
    };
    let released = scene.confirmed("TEA").await;
    set(&released, "released").await;
    let held = scene.rejected("CUP", "payment_declined").await;
    set(&held, "held").await;
    let kept = scene.cancelled("CUP").await;
    set(&kept, "committed").await;
    let early = scene.pending("POT", "unknown").await;
    set(&early, "committed").await;
    let other = scene.confirmed("POT").await;
    scene.inventory.run(format!("update reservation_items set quantity = 3 where order_id = '{}'", other.id)).await;
    let never = scene.confirmed("POT").await;
    scene
        .inventory
        .run(format!(
            "delete from reservation_items where order_id = '{0}'; delete from reservations where order_id = '{0}'",
            never.id
        ))
        .await;
    let nobody = uuid::Uuid::now_v7();
    scene.inventory.run(format!("insert into reservations (order_id, state) values ('{nobody}', 'held')")).await;
    let report = scene.judged().await;
    let orders = [
        (released.subject(), "confirmed, and its stock is released"),
        (held.subject(), "rejected, and its stock is held"),
        (kept.subject(), "cancelled, and its stock is committed"),
        (early.subject(), "payment_pending, and its stock is committed"),
        (other.subject(), "not what was ordered"),
        (never.subject(), "nothing was ever reserved"),
        (format!("order {nobody}"), "no such order"),
    ];
    let products = ["TEA", "CUP", "POT"].map(|sku| (format!("product {sku}"), "committed"));
    Scene::expect(&report, 4, &[&orders[..], &products[..]].concat());
}
