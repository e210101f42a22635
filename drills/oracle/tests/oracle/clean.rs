use serde_json::json;

use crate::{sale::told, scene::Scene};

#[tokio::test]
async fn a_shop_in_which_all_went_well_is_clean() {
    let mut scene = Scene::new().await;
    let bought = scene.confirmed("TEA").await;
    let cheaper = scene.confirmed_with_coupon("TEA").await;
    scene.confirmed_with_late_coupon("CUP").await;
    let returned = scene.cancelled("TEA").await;
    let refused = scene.rejected("POT", "out_of_stock").await;
    scene.answers = vec![
        told(&bought, 202, json!({"status": "created"})),
        told(&bought, 201, json!({"status": "confirmed"})),
        told(&cheaper, 201, json!({"status": "confirmed"})),
        told(&returned, 201, json!({"status": "confirmed"})),
        told(&refused, 409, json!({"type": "urn:problem:out-of-stock", "status": 409})),
    ];
    let report = scene.judged().await;
    assert!(report.clean() && report.unquiet.is_empty(), "{report}");
    // Nothing was clean for want of a look.
    let checked: Vec<usize> = report.invariants.iter().map(|verdict| verdict.checked).collect();
    assert_eq!(checked, [5, 3, 2, 3, 5, 5, 12, 5, 3], "{report}");
    assert!(report.invariants.iter().all(|verdict| verdict.apart.is_empty()));
}

#[tokio::test]
async fn a_shop_in_which_nothing_was_ordered_is_clean() {
    let report = Scene::new().await.judged().await;
    assert!(report.clean() && report.unquiet.is_empty(), "{report}");
}
