//! What can be asked for.

use contracts::recommendation::{Source, default_list};

use crate::service::Service;

#[tokio::test]
async fn with_nothing_known_the_default_list_is_given_as_long_as_asked_for() {
    let service = Service::start().await;
    let answer = service.recommended("").await;
    assert_eq!((answer.source, answer.items.len()), (Source::Default, 5));
    assert_eq!(answer.items, default_list()[..5]);
    // Also when the cache knows that nothing is known.
    let answer = service.recommended("?limit=1").await;
    assert_eq!((answer.source, answer.items.len()), (Source::Default, 1));
    assert_eq!(service.recommended("?limit=50").await.items, default_list());
}

#[tokio::test]
async fn a_product_is_never_recommended_beside_itself() {
    let service = Service::start().await;
    let asked = default_list()[0].sku.clone();
    let (source, skus) = service.skus(&format!("?sku={asked}&limit=50")).await;
    assert_eq!((source, skus.len()), (Source::Default, default_list().len() - 1));
    assert!(!skus.contains(&asked));
    service.ordered(&["A", "B"]).await;
    assert_eq!(service.skus("?sku=A").await, (Source::Live, vec!["B".to_owned()]));
}

#[tokio::test]
async fn the_answer_is_as_long_as_asked_for_and_filled_up_with_what_sells() {
    let service = Service::start().await;
    let many: Vec<String> = (0..60).map(|n| format!("P{n:02}")).collect();
    for chunk in many.chunks(20) {
        service.ordered(&chunk.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    assert_eq!(service.recommended("?sku=P00").await.items.len(), 5);
    let answer = service.recommended("?sku=P00&limit=50").await;
    assert_eq!(answer.items.len(), 50);
    let (together, filler) = answer.items.split_at(19);
    assert!(together.iter().all(|item| item.sku.as_str() < "P20" && item.score >= 1.0));
    assert!(filler.iter().all(|item| item.sku.as_str() >= "P20" && item.score < 1.0));
    // A product that nobody bought goes with what sells.
    assert_eq!(service.recommended("?sku=UNHEARD-OF&limit=50").await.items.len(), 50);
}
