//! Orders for the tests of this folder.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, Currency, OrderId, UserId,
    order::{OrderCouponState, OrderPaymentState, OrderStatus},
    payment::Channel,
};

use super::{Coupon, Event, KeyFate, Line, Order, Payment, Price, Transition, decide};

pub fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap()
}

pub fn submitted(coupon: Option<&str>) -> Order {
    Order {
        id: OrderId::generate(),
        user_id: UserId::generate(),
        tenant: None,
        status: OrderStatus::Created,
        reason: None,
        version: 0,
        lines: vec![Line { sku: "TEA".into(), quantity: 2, named: None }],
        price: Price::unknown(Currency::USD),
        coupon: Coupon { code: coupon.map(str::to_owned), state: OrderCouponState::None },
        payment_method: "tok_approve".into(),
        payment: Payment { attempt_id: None, state: OrderPaymentState::None, channel: None, refunded_minor: 0 },
        cancel_requested: false,
        refunds: vec![],
        degraded: vec![],
        suggestions: vec![],
        problem: None,
        traceparent: None,
        created_at: now(),
        updated_at: now(),
    }
}

/// Two at 500.
pub fn held() -> Event {
    let lines = vec![Line { sku: "TEA".into(), quantity: 2, named: Some(("Tea".into(), 500)) }];
    Event::StockHeld { lines, currency: Currency::USD }
}

pub fn approved(attempt: AttemptId) -> Event {
    Event::Approved { attempt, channel: Channel::Primary }
}

pub fn declined(attempt: AttemptId) -> Event {
    Event::Declined { attempt, channel: Channel::Primary, code: "stolen_card".into() }
}

/// Not to be deferred.
pub fn not_dispatched(attempt: AttemptId, left: bool) -> Event {
    Event::NotDispatched { attempt, left, reason: "breaker_open".into(), defer_up_to: None }
}

/// To be deferred up to a total of so much.
pub fn deferrable(attempt: AttemptId, left: bool, most: i64) -> Event {
    Event::NotDispatched { attempt, left, reason: "breaker_open".into(), defer_up_to: Some(most) }
}

/// The last of the transitions that `events` make.
pub fn after(order: Order, events: &[Event]) -> Transition {
    let start = Transition { order, effects: vec![], key: KeyFate::Keep, detail: None };
    events.iter().fold(start, |at, event| {
        decide(&at.order, event, now()).unwrap_or_else(|refusal| panic!("{} is refused: {refusal}", event.name()))
    })
}

pub fn in_flight(attempt: AttemptId) -> Order {
    after(submitted(None), &[held(), Event::ChargeIntended(attempt)]).order
}

pub fn pending(attempt: AttemptId) -> Order {
    after(in_flight(attempt), &[Event::PaymentUnknown { attempt }]).order
}

pub fn deferred(attempt: AttemptId) -> Order {
    after(in_flight(attempt), &[deferrable(attempt, true, 1_000)]).order
}

pub fn confirmed(attempt: AttemptId) -> Order {
    after(in_flight(attempt), &[approved(attempt)]).order
}

/// Confirmed at full price, with the discount still to be settled.
pub fn confirmed_with_pending_coupon(attempt: AttemptId) -> Order {
    let events = [held(), Event::CouponPending, Event::ChargeIntended(attempt), approved(attempt)];
    after(submitted(Some("WELCOME10")), &events).order
}
