//! How the siblings answer calls.

use contracts::{AttemptId, OrderId, coupon::RedemptionState, inventory::ReservationState, payment::AttemptState};
use serde_json::{Value, json};
use testkit::{Reply, stub::Seen};
use uuid::Uuid;

use super::siblings::{Attempt, Books, DISCOUNT, Provider};
use crate::world::problem;

impl Books {
    pub fn act(&mut self, seen: &Seen) -> Reply {
        let parts: Vec<&str> = seen.path.split('/').collect();
        let id = parts.get(3).and_then(|id| Uuid::parse_str(id).ok()).unwrap_or_default();
        match (parts.get(2).copied(), parts.get(4).copied()) {
            (Some("reservations"), verb) => self.reservation(OrderId::from_uuid(id), seen, verb),
            (Some("redemptions"), _) => self.redemption(OrderId::from_uuid(id), seen),
            (Some("payments"), Some("fence")) => self.fence(AttemptId::from_uuid(id)),
            (Some("payments"), None) => self.charge(AttemptId::from_uuid(id), &seen.body),
            _ => Reply::Json(200, json!({"source": "live", "items": []})),
        }
    }

    fn reservation(&mut self, order: OrderId, seen: &Seen, verb: Option<&str>) -> Reply {
        use ReservationState as R;
        let told = |state: R, items: Value| {
            Reply::Json(200, json!({"order_id": order, "state": state, "items": items, "currency": "USD"}))
        };
        match (seen.method.as_str(), self.stock.get(&order).copied()) {
            ("PUT", Some(R::Released | R::Returned)) => problem("reservation-released", 409, json!({})),
            ("PUT", _) if self.out_of_stock => problem("out-of-stock", 409, json!({"sku": "TEA", "available": 0})),
            ("PUT", _) => {
                self.stock.insert(order, R::Held);
                crate::world::stock_held(seen)
            }
            ("POST", _) if verb == Some("release") => {
                self.release_stock(order);
                told(self.stock[&order], json!([]))
            }
            (_, Some(state)) => told(state, json!([])),
            (_, None) => problem("not-found", 404, json!({})),
        }
    }

    fn redemption(&mut self, order: OrderId, seen: &Seen) -> Reply {
        use RedemptionState as R;
        let told = |state: R| {
            let body =
                json!({"order_id": order, "state": state, "code": "C", "discount_minor": DISCOUNT, "currency": "USD"});
            Reply::Json(200, body)
        };
        match (seen.method.as_str(), self.coupons.get(&order).copied()) {
            ("PUT", _) if self.coupon_away => Reply::Close,
            ("PUT", Some(R::Released | R::Returned)) => problem("coupon-expired", 409, json!({})),
            ("PUT", _) => {
                self.coupons.insert(order, R::Held);
                told(R::Held)
            }
            (_, Some(state)) => told(state),
            (_, None) => problem("not-found", 404, json!({})),
        }
    }

    fn charge(&mut self, id: AttemptId, body: &Value) -> Reply {
        use AttemptState as A;
        let amount = body["amount_minor"].as_i64().unwrap();
        let order: OrderId = body["order_id"].as_str().unwrap().parse().unwrap();
        // One that exists is reported and never sent again.
        let state = match self.attempts.get(&id) {
            Some(attempt) => attempt.state,
            None => {
                let (state, charged_minor) = match self.provider {
                    Provider::Approves => (A::Approved, amount),
                    Provider::Declines => (A::Declined, 0),
                    Provider::LosesReplies => (A::Unknown, amount),
                    Provider::LosesRequests => (A::Unknown, 0),
                    Provider::Away => (A::NotDispatched, 0),
                };
                self.attempts.insert(id, Attempt { order, state, charged_minor });
                state
            }
        };
        match state {
            A::NotDispatched => problem("payment-not-dispatched", 503, json!({"reason": "connect_failed"})),
            A::Fenced => problem("payment-fenced", 409, json!({})),
            A::Unknown => Reply::Json(202, json!({"state": "unknown"})),
            _ => Reply::Json(200, json!({"state": state, "channel": "primary"})),
        }
    }

    fn fence(&mut self, id: AttemptId) -> Reply {
        use AttemptState as A;
        let order = OrderId::from_uuid(Uuid::nil());
        let attempt = self.attempts.entry(id).or_insert(Attempt { order, state: A::Fenced, charged_minor: 0 });
        if attempt.state == A::NotDispatched {
            attempt.state = A::Fenced;
        }
        Reply::Json(200, json!({"state": attempt.state, "channel": "primary"}))
    }
}
