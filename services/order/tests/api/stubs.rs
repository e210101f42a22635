//! Siblings that all say yes, and one answer that is a problem.

use serde_json::{Value, json};
use testkit::{Reply, stub::Seen};
use uuid::Uuid;

pub fn stock_held(seen: &Seen) -> Reply {
    if seen.path.ends_with("/release") {
        return Reply::Json(200, json!({"order_id": Uuid::nil(), "state": "released", "items": [], "currency": "USD"}));
    }
    let asked = seen.body["items"].as_array().cloned().unwrap_or_default();
    let items: Vec<Value> = asked
        .iter()
        .map(|i| json!({"sku": i["sku"], "name": "Tea", "quantity": i["quantity"], "unit_price_minor": 500}))
        .collect();
    Reply::Json(201, json!({"order_id": Uuid::nil(), "state": "held", "items": items, "currency": "USD"}))
}

pub fn approved(_: &Seen) -> Reply {
    Reply::Json(200, json!({"state": "approved", "channel": "primary", "provider_ref": "ch_1"}))
}

pub fn discounted(_: &Seen) -> Reply {
    let redemption =
        json!({"order_id": Uuid::nil(), "state": "held", "code": "WELCOME10", "discount_minor": 50, "currency": "USD"});
    Reply::Json(201, redemption)
}

pub fn suggested(_: &Seen) -> Reply {
    Reply::Json(200, json!({"source": "live", "items": [{"sku": "MUG", "name": "Mug", "score": 1.0}]}))
}

pub fn problem(slug: &str, status: u16, members: Value) -> Reply {
    let mut body = json!({
        "type": format!("urn:problem:{slug}"), "title": "t", "status": status, "detail": "d", "retryable": false
    });
    if let (Some(body), Some(members)) = (body.as_object_mut(), members.as_object()) {
        body.extend(members.clone());
    }
    Reply::Json(status, body)
}
