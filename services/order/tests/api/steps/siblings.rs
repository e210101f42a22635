//! Siblings that keep books, so that what an order did to them can be checked afterwards. What they answer is what the
//! real ones would; one call, by its number, can go wrong.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use contracts::{
    AttemptId, Currency, Event, OrderId, RefundId,
    coupon::RedemptionState,
    event::{
        CouponCompensate, CouponOutcome, CouponSettled, EventData, OrderCancelled, OrderConfirmed, OrderRejected,
        PaymentApproved, PaymentDeclined, PaymentDeferred, PaymentFenced, PaymentRefundRequested, PaymentRefunded,
        PaymentUnknown,
    },
    inventory::ReservationState,
    payment::{AttemptState, Channel},
};
use serde_json::{Value, json};
use testkit::{Reply, stub::Seen};
use uuid::Uuid;

use crate::world::problem;

/// What the provider does with a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Provider {
    #[default]
    Approves,
    Declines,
    /// It charges, and its answer is lost.
    LosesReplies,
    /// It never hears of it.
    LosesRequests,
    /// It cannot be reached.
    Away,
}

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It does not arrive, and the caller cannot know that.
    RequestLost,
    /// It takes effect, and the caller does not hear of it.
    ReplyLost,
    /// It is refused for a reason that has nothing to do with the order.
    Refused,
}

pub const FAILURES: [Failure; 3] = [Failure::RequestLost, Failure::ReplyLost, Failure::Refused];

#[derive(Debug, Clone)]
pub struct Attempt {
    pub order: OrderId,
    pub state: AttemptState,
    /// What the provider has taken.
    pub charged_minor: i64,
}

#[derive(Debug, Default)]
pub struct Books {
    pub provider: Provider,
    pub out_of_stock: bool,
    pub coupon_away: bool,
    /// Calls so far, and which of them goes wrong.
    pub calls: usize,
    pub failing: Option<(usize, Failure)>,
    pub stock: HashMap<OrderId, ReservationState>,
    pub coupons: HashMap<OrderId, RedemptionState>,
    pub attempts: HashMap<AttemptId, Attempt>,
    pub refunds: HashMap<RefundId, (OrderId, i64)>,
}

pub const DISCOUNT: i64 = 50;

#[derive(Clone, Default)]
pub struct Siblings(Arc<Mutex<Books>>);

impl Siblings {
    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap()
    }

    /// Everything forgotten, for the next journey.
    pub fn reset(&self) {
        *self.books() = Books::default();
    }

    pub fn answer(&self, seen: &Seen) -> Reply {
        let mut books = self.books();
        books.calls += 1;
        let failure = books.failing.filter(|(nth, _)| *nth == books.calls).map(|(_, failure)| failure);
        match failure {
            Some(Failure::RequestLost) => Reply::Close,
            Some(Failure::Refused) => problem("storage-unavailable", 503, json!({})),
            Some(Failure::ReplyLost) => {
                books.act(seen);
                Reply::Close
            }
            None => books.act(seen),
        }
    }

    /// What payment finds out by itself: it asks the provider about whatever it does not know the outcome of.
    pub fn reconcile(&self) -> Vec<Event> {
        let mut books = self.books();
        let unknown = |(id, attempt): (&AttemptId, &Attempt)| {
            (attempt.state == AttemptState::Unknown).then_some((attempt.order, *id))
        };
        let unknown: Vec<_> = books.attempts.iter().filter_map(unknown).collect();
        unknown.into_iter().flat_map(|(order, attempt)| books.reconcile(order, attempt)).collect()
    }

    /// An event of order takes effect, and leads to these.
    pub fn hear(&self, event: &Event) -> Vec<Event> {
        self.books().hear(event)
    }
}

impl Books {
    fn act(&mut self, seen: &Seen) -> Reply {
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

    fn release_stock(&mut self, order: OrderId) {
        use ReservationState as R;
        let after = match self.stock.get(&order) {
            Some(R::Committed | R::Returned) => R::Returned,
            _ => R::Released,
        };
        self.stock.insert(order, after);
    }

    fn release(&mut self, order: OrderId) {
        use RedemptionState as R;
        self.release_stock(order);
        let after = match self.coupons.get(&order) {
            Some(R::Committed | R::Returned) => R::Returned,
            _ => R::Released,
        };
        self.coupons.insert(order, after);
    }

    fn hear(&mut self, event: &Event) -> Vec<Event> {
        if let Some(confirmed) = read::<OrderConfirmed>(event) {
            if let Some(state @ ReservationState::Held) = self.stock.get_mut(&confirmed.order_id) {
                *state = ReservationState::Committed;
            }
            if confirmed.coupon_code.is_some()
                && let Some(state @ RedemptionState::Held) = self.coupons.get_mut(&confirmed.order_id)
            {
                *state = RedemptionState::Committed;
            }
        } else if let Some(rejected) = read::<OrderRejected>(event) {
            self.release(rejected.order_id);
        } else if let Some(cancelled) = read::<OrderCancelled>(event) {
            self.release(cancelled.order_id);
        } else if let Some(PaymentUnknown { order_id, attempt_id }) = read(event) {
            return self.reconcile(order_id, attempt_id);
        } else if let Some(deferred) = read::<PaymentDeferred>(event) {
            return self.send_deferred(&deferred);
        } else if let Some(asked) = read::<PaymentRefundRequested>(event) {
            let PaymentRefundRequested { order_id, attempt_id, refund_id, amount_minor, currency, .. } = asked;
            self.refunds.insert(refund_id, (order_id, amount_minor));
            return vec![said(&PaymentRefunded { order_id, attempt_id, refund_id, amount_minor, currency })];
        } else if let Some(CouponCompensate { order_id, .. }) = read(event) {
            use RedemptionState as R;
            if matches!(self.coupons.get(&order_id), Some(R::Released | R::Returned)) {
                return vec![];
            }
            self.coupons.insert(order_id, R::Committed);
            let outcome = CouponOutcome::Honoured { discount_minor: DISCOUNT };
            return vec![said(&CouponSettled { order_id, outcome })];
        }
        vec![]
    }

    /// Payment asks the provider, or fences what was never sent; of what is settled it tells again.
    fn reconcile(&mut self, order_id: OrderId, attempt_id: AttemptId) -> Vec<Event> {
        use AttemptState as A;
        let never = Attempt { order: order_id, state: A::Fenced, charged_minor: 0 };
        let attempt = self.attempts.entry(attempt_id).or_insert(never);
        attempt.state = match attempt.state {
            A::Unknown if attempt.charged_minor > 0 => A::Approved,
            A::Unknown | A::NotDispatched => A::Fenced,
            settled => settled,
        };
        vec![settlement(order_id, attempt_id, attempt)]
    }

    fn send_deferred(&mut self, deferred: &PaymentDeferred) -> Vec<Event> {
        use AttemptState as A;
        let (order_id, attempt_id) = (deferred.order_id, deferred.attempt_id);
        let never = Attempt { order: order_id, state: A::NotDispatched, charged_minor: 0 };
        let attempt = self.attempts.entry(attempt_id).or_insert(never);
        if attempt.state == A::NotDispatched {
            (attempt.state, attempt.charged_minor) = (A::Approved, deferred.amount_minor);
        }
        vec![settlement(order_id, attempt_id, attempt)]
    }
}

fn settlement(order_id: OrderId, attempt_id: AttemptId, attempt: &Attempt) -> Event {
    let channel = Channel::Primary;
    match attempt.state {
        AttemptState::Approved => said(&PaymentApproved {
            order_id,
            attempt_id,
            channel,
            provider_ref: "ch_1".into(),
            amount_minor: attempt.charged_minor,
            currency: Currency::USD,
        }),
        AttemptState::Declined => {
            said(&PaymentDeclined { order_id, attempt_id, channel, decline_code: "stolen_card".into() })
        }
        _ => said(&PaymentFenced { order_id, attempt_id }),
    }
}

fn said<D: EventData>(data: &D) -> Event {
    Event::new(data, 1, None, chrono::Utc::now()).unwrap()
}

fn read<D: EventData>(event: &Event) -> Option<D> {
    event.decode::<D>().map(Result::unwrap)
}
