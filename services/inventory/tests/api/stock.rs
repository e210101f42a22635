//! The list of products, one of them, and deliveries.

use std::collections::HashSet;

use contracts::{ProblemType, inventory::StockLevel, order::Page};
use serde_json::{Value, json};

use crate::shop::{Shop, fields, ok, refused};

async fn page(shop: &Shop, query: &str) -> Page<StockLevel> {
    ok(shop.get(&format!("/v1/stock{query}")).send().await.unwrap()).await
}

#[tokio::test]
async fn a_product_is_shown_with_its_price_and_its_stock() {
    let shop = Shop::open().await;
    shop.hold(&[("TEA-SENCHA-100", 4)]).await;
    let body: Value = ok(shop.get("/v1/stock/TEA-SENCHA-100").send().await.unwrap()).await;
    assert_eq!(
        body,
        json!({
            "sku": "TEA-SENCHA-100", "name": "Japanese Sencha 100 g", "unit_price_minor": 1590, "currency": "USD",
            "on_hand": 10_000, "reserved": 4, "available": 9_996
        })
    );
}

#[tokio::test]
async fn a_product_that_does_not_exist_is_not_found_whatever_its_name() {
    let shop = Shop::open().await;
    for sku in ["ZEBRA", "%00", "%ff", "A%20B", &"X".repeat(65), "..%2f..", "'%3B--"] {
        refused(shop.get(&format!("/v1/stock/{sku}")).send().await.unwrap(), ProblemType::NotFound).await;
    }
}

#[tokio::test]
async fn the_list_gives_every_product_once_page_by_page() {
    let shop = Shop::open().await;
    assert_eq!(page(&shop, "").await.items.len(), 50);
    let whole = page(&shop, "?limit=200").await;
    assert_eq!(whole.items.len(), 200);
    assert!(whole.next_cursor.is_some());

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(&shop, &format!("?limit=60{cursor}")).await;
        seen.extend(page.items.into_iter().map(|level| level.sku));
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert!(seen.is_sorted());
    let different: HashSet<&String> = seen.iter().collect();
    let products: i64 =
        sqlx::query_scalar("select count(*) from products").fetch_one(shop.database.pool()).await.unwrap();
    assert_eq!((different.len(), i64::try_from(seen.len()).unwrap()), (seen.len(), products));
}

#[tokio::test]
async fn the_last_page_is_known_as_the_last_even_when_it_is_full() {
    let shop = Shop::open().await;
    let first = page(&shop, "?limit=1").await;
    let before_last: String = sqlx::query_scalar("select sku from products order by sku desc offset 1 limit 1")
        .fetch_one(shop.database.pool())
        .await
        .unwrap();
    let cursor: String = before_last.bytes().map(|byte| format!("{byte:02x}")).collect();
    let last = page(&shop, &format!("?limit=1&cursor={cursor}")).await;
    assert_eq!((last.items.len(), last.next_cursor), (1, None));
    assert!(first.next_cursor.is_some());
}

#[tokio::test]
async fn a_bad_limit_or_cursor_is_named() {
    let shop = Shop::open().await;
    for (query, field) in [
        ("?limit=0", "limit"),
        ("?limit=201", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=ten", "limit"),
        ("?limit=", "limit"),
        ("?limit=99999999999999999999", "limit"),
        ("?cursor=", "cursor"),
        ("?cursor=TEA", "cursor"),
        ("?cursor=00", "cursor"),
        ("?cursor=ff", "cursor"),
        ("?page=2", "query"),
    ] {
        let response = shop.get(&format!("/v1/stock{query}")).send().await.unwrap();
        let problem = refused(response, ProblemType::InvalidRequest).await;
        assert_eq!(fields(&problem), [field], "{query}");
    }
}

#[tokio::test]
async fn a_delivery_counts_once_for_its_reference() {
    let shop = Shop::open().await;
    for _ in 0..2 {
        let level: StockLevel = ok(shop.restock("POSTER-SOLD-OUT", 7, "note-1").await).await;
        assert_eq!((level.sku.as_str(), level.on_hand, level.available), ("POSTER-SOLD-OUT", 7, 7));
    }
    let level: StockLevel = ok(shop.restock("POSTER-SOLD-OUT", 7, "note-2").await).await;
    assert_eq!(level.on_hand, 14);
    assert_eq!(shop.unaccounted().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_reference_does_not_stand_for_two_deliveries() {
    let shop = Shop::open().await;
    assert_eq!(shop.restock("POSTER-SOLD-OUT", 7, "note-1").await.status(), 200);
    for (sku, quantity) in [("POSTER-SOLD-OUT", 8), ("POSTER-LAST-ONE", 7)] {
        let problem = refused(shop.restock(sku, quantity, "note-1").await, ProblemType::ContentMismatch).await;
        assert_eq!(fields(&problem), ["reference"]);
    }
    assert_eq!(shop.units("POSTER-SOLD-OUT").await, (7, 0, 0));
    assert_eq!(shop.units("POSTER-LAST-ONE").await, (1, 0, 0));
}

#[tokio::test]
async fn a_delivery_of_an_unknown_product_is_refused_and_its_reference_stays_free() {
    let shop = Shop::open().await;
    refused(shop.restock("ZEBRA", 1, "note-1").await, ProblemType::NotFound).await;
    assert_eq!(shop.restock("POSTER-SOLD-OUT", 7, "note-1").await.status(), 200);
}

#[tokio::test]
async fn a_delivery_out_of_range_is_refused_by_field() {
    let shop = Shop::open().await;
    for (quantity, reference, field) in [
        (0, "n", "quantity"),
        (-1, "n", "quantity"),
        (1_000_001, "n", "quantity"),
        (1, "", "reference"),
        (1, "a b", "reference"),
    ] {
        let problem =
            refused(shop.restock("CUP-MUG-BLUE", quantity, reference).await, ProblemType::ValidationFailed).await;
        assert_eq!(fields(&problem), [field]);
    }
}

#[tokio::test]
async fn a_second_start_adds_no_product_and_resets_no_stock() {
    let shop = Shop::open().await;
    let order = shop.hold(&[("POSTER-LAST-ONE", 1)]).await;
    assert_eq!(shop.commit(order).await.status(), 200);
    assert_eq!(inventory::seed::seed(&shop.database).await.unwrap(), 0);
    assert_eq!(shop.units("POSTER-LAST-ONE").await, (0, 0, 1));
}
