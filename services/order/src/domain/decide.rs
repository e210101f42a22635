//! The only place where an order changes.
//!
//! An event that does not fit is refused in one of three ways, and changes nothing. The shell (`workflow/apply.rs`)
//! loads the order under its row lock, calls [`decide`], and saves the order, its history and the events that it
//! emits in one transaction.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, Currency, Problem, ProblemType,
    order::{OrderCouponState, OrderPaymentState, OrderStatus, StatusReason},
    payment::Channel,
};

use super::{Line, Order, Price};

/// What somebody who knows has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Inventory holds the stock, at these names and prices.
    StockHeld {
        lines: Vec<Line>,
        currency: Currency,
    },
    /// A business no: out of stock, unknown product, released before.
    StockRefused(Box<Problem>),
    /// Inventory was certainly not asked.
    StockNotDispatched,
    /// Inventory was asked and gave no answer: it may hold the stock.
    StockUnknown,
    CouponHeld {
        discount_minor: i64,
    },
    /// The coupon service gave no answer: full price now, the discount is settled later.
    CouponPending,
    CouponRefused(Box<Problem>),
    /// There was no time left to begin a charge, or the run that should have done it died.
    Expired,
    /// The intent to charge under this attempt. Saved before the call.
    ChargeIntended(AttemptId),
    Approved {
        attempt: AttemptId,
        channel: Channel,
    },
    Declined {
        attempt: AttemptId,
        channel: Channel,
        code: String,
    },
    /// The charge did not reach the provider. `left`: a request did leave this process towards payment, so that a
    /// copy of it may still arrive there.
    NotDispatched {
        attempt: AttemptId,
        left: bool,
        reason: String,
    },
    /// The charge was sent, or its run died, and nobody here knows what came of it.
    PaymentUnknown {
        attempt: AttemptId,
    },
    /// The attempt will never be sent to the provider.
    Fenced {
        attempt: AttemptId,
    },
}

impl Event {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::StockHeld { .. } => "stock_held",
            Self::StockRefused(_) => "stock_refused",
            Self::StockNotDispatched => "stock_not_dispatched",
            Self::StockUnknown => "stock_unknown",
            Self::CouponHeld { .. } => "coupon_held",
            Self::CouponPending => "coupon_pending",
            Self::CouponRefused(_) => "coupon_refused",
            Self::Expired => "expired",
            Self::ChargeIntended(_) => "charge_intended",
            Self::Approved { .. } => "approved",
            Self::Declined { .. } => "declined",
            Self::NotDispatched { .. } => "not_dispatched",
            Self::PaymentUnknown { .. } => "payment_unknown",
            Self::Fenced { .. } => "fenced",
        }
    }

    /// The payment attempt that the event speaks of.
    const fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Approved { attempt, .. }
            | Self::Declined { attempt, .. }
            | Self::NotDispatched { attempt, .. }
            | Self::PaymentUnknown { attempt }
            | Self::Fenced { attempt } => Some(*attempt),
            _ => None,
        }
    }
}

/// What has to be told to others, as events of the same transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Stock and coupon are committed, recommendations learn.
    Confirmed,
    /// Stock and coupon are released, whatever is believed of them: an answer may have been lost, and a duplicate of
    /// the request to hold them may still arrive.
    Rejected,
    /// Somebody has to find out what became of the charge.
    PaymentUnknown,
}

/// What becomes of the idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFate {
    /// The work goes on.
    Keep,
    /// The order has an outcome that a repeated request is shown.
    Complete,
    /// A repeated request starts anew: no charge can ever have been sent for this order.
    Release,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub order: Order,
    pub effects: Vec<Effect>,
    pub key: KeyFate,
    /// For the history.
    pub detail: Option<String>,
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has taken effect before: drop it.
    #[error("already so")]
    AlreadySo,
    /// It came too early: try again.
    #[error("not yet")]
    NotYet,
    /// It can never apply: somebody has to look at it.
    #[error("never")]
    Never,
}

/// The order after `event`, and what follows from it.
pub fn decide(order: &Order, event: &Event, now: DateTime<Utc>) -> Result<Transition, Refusal> {
    use OrderStatus as S;

    if let Some(attempt) = event.attempt() {
        match order.payment.attempt_id {
            None if order.status.is_final() => return Err(Refusal::Never),
            None => return Err(Refusal::NotYet),
            Some(own) if own != attempt => return Err(Refusal::Never),
            Some(_) => {}
        }
    }
    let mut next = order.clone();
    next.updated_at = now;
    match (order.status, event) {
        // Created → StockReserved
        (S::Created, Event::StockHeld { lines, currency }) => {
            next.status = S::StockReserved;
            next.lines.clone_from(lines);
            // A sum that does not fit is an order that nobody can place; inventory's prices are far from it.
            next.price = Price::of(lines, *currency).map_err(|_| Refusal::Never)?;
            Ok(keep(next, None))
        }
        // Created → Rejected
        (S::Created, Event::StockRefused(problem)) => {
            let reason = match problem.kind {
                ProblemType::OutOfStock => StatusReason::OutOfStock,
                ProblemType::UnknownSku => StatusReason::UnknownSku,
                _ => StatusReason::InventoryUnavailable,
            };
            // Released before: the hold was fenced off, so this order can no longer succeed, and a new one may.
            if reason == StatusReason::InventoryUnavailable {
                return Ok(reject(next, reason, unavailable(ProblemType::InventoryUnavailable), KeyFate::Release));
            }
            Ok(reject(next, reason, (**problem).clone(), KeyFate::Complete))
        }
        // Created → Rejected
        (S::Created, Event::StockNotDispatched | Event::StockUnknown) => {
            let problem = unavailable(ProblemType::InventoryUnavailable).with_mechanism("inventory");
            Ok(reject(next, StatusReason::InventoryUnavailable, problem, KeyFate::Release))
        }
        // StockReserved → StockReserved, with the total fixed
        (S::StockReserved, Event::CouponHeld { discount_minor }) if order.coupon.is_open() => {
            // A discount that leaves nothing to pay breaks coupon's own promise.
            next.price = order.price.discounted(*discount_minor).ok_or(Refusal::Never)?;
            next.coupon.state = OrderCouponState::Held;
            Ok(keep(next, None))
        }
        // StockReserved → StockReserved, at full price
        (S::StockReserved, Event::CouponPending) if order.coupon.is_open() => {
            next.coupon.state = OrderCouponState::Pending;
            next.degraded.push("coupon".to_owned());
            Ok(keep(next, None))
        }
        // StockReserved → Rejected
        (S::StockReserved, Event::CouponRefused(problem)) if order.coupon.is_open() => {
            next.coupon.state = OrderCouponState::Rejected;
            Ok(reject(next, StatusReason::CouponRefused, (**problem).clone(), KeyFate::Complete))
        }
        // StockReserved → PaymentInFlight
        (S::StockReserved, Event::ChargeIntended(attempt)) if !order.coupon.is_open() => {
            next.status = S::PaymentInFlight;
            next.payment.attempt_id = Some(*attempt);
            next.payment.state = OrderPaymentState::InFlight;
            Ok(keep(next, Some(attempt.to_string())))
        }
        // Created, StockReserved → Rejected
        (S::Created | S::StockReserved, Event::Expired) => {
            let problem = Problem::new(ProblemType::DeadlineExceeded, "the order could not be placed in time")
                .with_mechanism("deadline");
            Ok(reject(next, StatusReason::Expired, problem, KeyFate::Release))
        }
        // PaymentInFlight, PaymentPending → Confirmed
        (S::PaymentInFlight | S::PaymentPending, Event::Approved { channel, .. }) => {
            next.status = S::Confirmed;
            next.payment.state = OrderPaymentState::Approved;
            next.payment.channel = Some(*channel);
            if next.coupon.state == OrderCouponState::Held {
                next.coupon.state = OrderCouponState::Applied;
            }
            Ok(Transition { effects: vec![Effect::Confirmed], key: KeyFate::Complete, detail: None, order: next })
        }
        // PaymentInFlight, PaymentPending → Rejected
        (S::PaymentInFlight | S::PaymentPending, Event::Declined { channel, code, .. }) => {
            next.payment.state = OrderPaymentState::Declined;
            next.payment.channel = Some(*channel);
            let problem = Problem::new(ProblemType::PaymentDeclined, format!("the provider declined: {code}"))
                .with("decline_code", code.as_str());
            Ok(reject(next, StatusReason::PaymentDeclined, problem, KeyFate::Complete))
        }
        // PaymentInFlight → Rejected: nothing left this process, so there is nothing to fence
        (S::PaymentInFlight, Event::NotDispatched { left: false, reason, .. }) => {
            next.payment.state = OrderPaymentState::NotDispatched;
            Ok(reject(next, StatusReason::PaymentUnavailable, payment_unavailable(reason), KeyFate::Release))
        }
        // PaymentInFlight → PaymentInFlight, until payment has fenced the attempt: a copy of the request that was
        // refused could otherwise be let through later
        (S::PaymentInFlight, Event::NotDispatched { left: true, reason, .. })
            if order.payment.state == OrderPaymentState::InFlight =>
        {
            next.payment.state = OrderPaymentState::NotDispatched;
            Ok(keep(next, Some(reason.clone())))
        }
        // PaymentInFlight → Rejected: refused, then fenced; no charge was sent and none will be
        (S::PaymentInFlight, Event::Fenced { .. }) if order.payment.state == OrderPaymentState::NotDispatched => {
            next.payment.state = OrderPaymentState::Fenced;
            Ok(reject(next, StatusReason::PaymentUnavailable, payment_unavailable("fenced"), KeyFate::Release))
        }
        // PaymentInFlight, PaymentPending → Rejected: fenced by somebody else, and a request may have left before that,
        // so the key stays
        (S::PaymentInFlight | S::PaymentPending, Event::Fenced { .. }) => {
            next.payment.state = OrderPaymentState::Fenced;
            let problem =
                Problem { retryable: false, retry_after_ms: None, ..unavailable(ProblemType::PaymentUnavailable) };
            Ok(reject(next, StatusReason::PaymentNotFound, problem, KeyFate::Complete))
        }
        // PaymentInFlight → PaymentPending
        (S::PaymentInFlight, Event::PaymentUnknown { .. }) => {
            next.status = S::PaymentPending;
            next.payment.state = OrderPaymentState::Unknown;
            let effects = vec![Effect::PaymentUnknown];
            Ok(Transition { effects, key: KeyFate::Complete, detail: None, order: next })
        }
        (_, event) => Err(refusal(order, event)),
    }
}

/// Of an event that has no arm above.
fn refusal(order: &Order, event: &Event) -> Refusal {
    use OrderPaymentState as P;
    use OrderStatus as S;
    let reserved = !matches!(order.status, S::Created);
    let intended = order.payment.attempt_id.is_some();
    let so = match event {
        Event::StockHeld { .. } => reserved && order.status != S::Rejected,
        Event::StockRefused(_) | Event::StockNotDispatched | Event::StockUnknown | Event::Expired => {
            order.status == S::Rejected
        }
        Event::CouponHeld { .. } => matches!(order.coupon.state, OrderCouponState::Held | OrderCouponState::Applied),
        Event::CouponPending => order.coupon.state == OrderCouponState::Pending,
        Event::CouponRefused(_) => order.coupon.state == OrderCouponState::Rejected,
        Event::ChargeIntended(attempt) => order.payment.attempt_id == Some(*attempt),
        Event::Approved { .. } => order.payment.state == P::Approved,
        Event::Declined { .. } => order.payment.state == P::Declined,
        Event::NotDispatched { .. } => intended,
        Event::PaymentUnknown { .. } => intended && order.status != S::PaymentInFlight,
        Event::Fenced { .. } => order.payment.state == P::Fenced,
    };
    if so { Refusal::AlreadySo } else { Refusal::Never }
}

fn keep(order: Order, detail: Option<String>) -> Transition {
    Transition { order, effects: Vec::new(), key: KeyFate::Keep, detail }
}

fn reject(mut order: Order, reason: StatusReason, problem: Problem, key: KeyFate) -> Transition {
    order.status = OrderStatus::Rejected;
    order.reason = Some(reason);
    if order.coupon.state == OrderCouponState::Held {
        order.coupon.state = OrderCouponState::Rejected;
    }
    let detail = Some(problem.detail.clone());
    order.problem = Some(problem.with_order(order.id));
    Transition { order, effects: vec![Effect::Rejected], key, detail }
}

fn unavailable(kind: ProblemType) -> Problem {
    Problem::new(kind, kind.title())
}

fn payment_unavailable(reason: &str) -> Problem {
    let detail = format!("the charge did not reach the provider ({reason}); nothing was charged");
    Problem::new(ProblemType::PaymentUnavailable, detail).with_mechanism(mechanism(reason))
}

/// Our guard towards payment that kept the charge from leaving; anything else is payment's word.
fn mechanism(reason: &str) -> String {
    let guard = match reason {
        "breaker_open" => "breaker",
        "bulkhead_full" => "bulkhead",
        "rate_limited" => "rate_limit",
        "connect_failed" => "connect",
        other => return format!("payment.{other}"),
    };
    format!("{guard}.payment")
}

#[cfg(test)]
mod tests {
    use contracts::{OrderId, UserId};
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{Coupon, Payment};

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000, 0).unwrap()
    }

    fn submitted(coupon: Option<&str>) -> Order {
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
            degraded: vec![],
            suggestions: vec![],
            problem: None,
            traceparent: None,
            created_at: now(),
            updated_at: now(),
        }
    }

    fn held() -> Event {
        let lines = vec![Line { sku: "TEA".into(), quantity: 2, named: Some(("Tea".into(), 500)) }];
        Event::StockHeld { lines, currency: Currency::USD }
    }

    fn after(order: Order, events: &[Event]) -> Transition {
        let start = Transition { order, effects: vec![], key: KeyFate::Keep, detail: None };
        events.iter().fold(start, |at, event| decide(&at.order, event, now()).unwrap())
    }

    fn in_flight(attempt: AttemptId) -> Order {
        after(submitted(None), &[held(), Event::ChargeIntended(attempt)]).order
    }

    #[test]
    fn an_order_with_a_coupon_is_charged_less_the_discount() {
        let attempt = AttemptId::generate();
        let events = [
            held(),
            Event::CouponHeld { discount_minor: 100 },
            Event::ChargeIntended(attempt),
            Event::Approved { attempt, channel: Channel::Primary },
        ];
        let end = after(submitted(Some("WELCOME10")), &events);
        assert_eq!((end.order.status, end.order.price.total_minor), (OrderStatus::Confirmed, 900));
        assert_eq!(end.order.coupon.state, OrderCouponState::Applied);
        assert_eq!((end.effects, end.key), (vec![Effect::Confirmed], KeyFate::Complete));
    }

    #[test]
    fn a_coupon_without_an_answer_means_full_price_and_says_so() {
        let order = after(submitted(Some("WELCOME10")), &[held(), Event::CouponPending]).order;
        assert_eq!((order.price.total_minor, order.price.discount_minor), (1_000, 0));
        assert_eq!(order.degraded, ["coupon"]);
    }

    #[test]
    fn a_charge_is_not_intended_while_the_coupon_is_open() {
        let order = after(submitted(Some("WELCOME10")), &[held()]).order;
        let intent = Event::ChargeIntended(AttemptId::generate());
        assert_eq!(decide(&order, &intent, now()), Err(Refusal::Never));
    }

    #[test]
    fn a_discount_that_leaves_nothing_to_pay_is_refused() {
        let order = after(submitted(Some("ALL")), &[held()]).order;
        assert_eq!(decide(&order, &Event::CouponHeld { discount_minor: 1_000 }, now()), Err(Refusal::Never));
    }

    #[test]
    fn what_never_left_this_process_rejects_at_once_and_frees_the_key() {
        let attempt = AttemptId::generate();
        let event = Event::NotDispatched { attempt, left: false, reason: "connect_failed".into() };
        let end = after(in_flight(attempt), &[event]);
        assert_eq!((end.order.status, end.key), (OrderStatus::Rejected, KeyFate::Release));
        assert_eq!(end.order.problem.unwrap().kind, ProblemType::PaymentUnavailable);
    }

    // A duplicate of the refused request may still arrive at payment and be let through there.
    #[test]
    fn what_payment_refused_is_fenced_before_the_order_is_rejected() {
        let attempt = AttemptId::generate();
        let refused = Event::NotDispatched { attempt, left: true, reason: "breaker_open".into() };
        let waiting = after(in_flight(attempt), std::slice::from_ref(&refused));
        assert_eq!((waiting.order.status, waiting.key), (OrderStatus::PaymentInFlight, KeyFate::Keep));
        let end = after(waiting.order.clone(), &[Event::Fenced { attempt }]);
        assert_eq!((end.order.status, end.key), (OrderStatus::Rejected, KeyFate::Release));
        // Without an answer from the fence nothing is known.
        let unknown = after(waiting.order, &[Event::PaymentUnknown { attempt }]);
        assert_eq!((unknown.order.status, unknown.key), (OrderStatus::PaymentPending, KeyFate::Complete));
    }

    // A fence after a dispatch proves nothing about the charge that was dispatched.
    #[test]
    fn a_fence_after_a_dispatch_does_not_free_the_key() {
        let attempt = AttemptId::generate();
        let end = after(in_flight(attempt), &[Event::PaymentUnknown { attempt }, Event::Fenced { attempt }]);
        assert_eq!((end.order.status, end.key), (OrderStatus::Rejected, KeyFate::Complete));
        assert_eq!(end.order.reason, Some(StatusReason::PaymentNotFound));
    }

    #[test]
    fn a_pending_order_is_confirmed_by_a_late_approval() {
        let attempt = AttemptId::generate();
        let approved = Event::Approved { attempt, channel: Channel::Primary };
        let end = after(in_flight(attempt), &[Event::PaymentUnknown { attempt }, approved]);
        assert_eq!((end.order.status, end.effects), (OrderStatus::Confirmed, vec![Effect::Confirmed]));
    }

    // An ordinary duplicate is not a dead letter.
    #[test]
    fn refusals_tell_a_duplicate_from_something_early_and_from_something_wrong() {
        let attempt = AttemptId::generate();
        let approved = Event::Approved { attempt, channel: Channel::Primary };
        let confirmed = after(in_flight(attempt), std::slice::from_ref(&approved)).order;
        assert_eq!(decide(&confirmed, &approved, now()), Err(Refusal::AlreadySo));
        assert_eq!(decide(&confirmed, &Event::PaymentUnknown { attempt }, now()), Err(Refusal::AlreadySo));
        assert_eq!(decide(&submitted(None), &approved, now()), Err(Refusal::NotYet));
        let foreign = Event::Approved { attempt: AttemptId::generate(), channel: Channel::Primary };
        assert_eq!(decide(&in_flight(attempt), &foreign, now()), Err(Refusal::Never));
        let declined = Event::Declined { attempt, channel: Channel::Primary, code: "x".into() };
        assert_eq!(decide(&confirmed, &declined, now()), Err(Refusal::Never));
    }

    #[test]
    fn a_stock_refusal_is_answered_as_inventory_said_it() {
        let problem = Problem::new(ProblemType::OutOfStock, "x").with("sku", "TEA").with("available", 1);
        let end = after(submitted(None), &[Event::StockRefused(Box::new(problem))]);
        assert_eq!((end.order.reason, end.key), (Some(StatusReason::OutOfStock), KeyFate::Complete));
        assert_eq!(end.effects, [Effect::Rejected]);
        assert_eq!(end.order.problem.unwrap().extra["available"], 1);
        // A hold that was released before is no fault of the stock: the client may try again.
        let released = Problem::new(ProblemType::ReservationReleased, "x");
        let end = after(submitted(None), &[Event::StockRefused(Box::new(released))]);
        assert_eq!((end.order.reason, end.key), (Some(StatusReason::InventoryUnavailable), KeyFate::Release));
    }

    fn any_event(attempt: AttemptId, other: AttemptId) -> impl Strategy<Value = Event> {
        let ids = prop_oneof![9 => Just(attempt), 1 => Just(other)];
        let problem = |kind| Box::new(Problem::new(kind, "x"));
        prop_oneof![
            Just(held()),
            Just(Event::StockRefused(problem(ProblemType::OutOfStock))),
            Just(Event::StockNotDispatched),
            Just(Event::StockUnknown),
            (0i64..1_200).prop_map(|discount_minor| Event::CouponHeld { discount_minor }),
            Just(Event::CouponPending),
            Just(Event::CouponRefused(problem(ProblemType::CouponExpired))),
            Just(Event::Expired),
            ids.clone().prop_map(Event::ChargeIntended),
            ids.clone().prop_map(|attempt| Event::Approved { attempt, channel: Channel::Primary }),
            ids.clone().prop_map(|attempt| Event::Declined { attempt, channel: Channel::Primary, code: "c".into() }),
            (ids.clone(), any::<bool>()).prop_map(|(attempt, left)| Event::NotDispatched {
                attempt,
                left,
                reason: "breaker_open".into()
            }),
            ids.clone().prop_map(|attempt| Event::PaymentUnknown { attempt }),
            ids.prop_map(|attempt| Event::Fenced { attempt }),
        ]
    }

    fn histories() -> impl Strategy<Value = (Option<&'static str>, Vec<Event>)> {
        let (attempt, other) = (AttemptId::generate(), AttemptId::generate());
        let coupon = prop_oneof![Just(None), Just(Some("WELCOME10"))];
        // A start that gets somewhere, then anything.
        let start = prop_oneof![
            Just(vec![]),
            Just(vec![held()]),
            Just(vec![held(), Event::CouponPending, Event::ChargeIntended(attempt)]),
            Just(vec![held(), Event::ChargeIntended(attempt)]),
        ];
        (coupon, start, prop::collection::vec(any_event(attempt, other), 0..25))
            .prop_map(|(coupon, start, rest)| (coupon, start.into_iter().chain(rest).collect()))
    }

    proptest! {
        #[test]
        fn whatever_happens_an_order_ends_once_and_keeps_its_books((coupon, events) in histories()) {
            let mut order = submitted(coupon);
            let (mut confirmed, mut rejected, mut released) = (0, 0, false);
            for event in events {
                let Ok(next) = decide(&order, &event, now()) else { continue };
                prop_assert!(!order.status.is_final(), "{} changed a final order", event.name());
                confirmed += next.effects.iter().filter(|e| **e == Effect::Confirmed).count();
                rejected += next.effects.iter().filter(|e| **e == Effect::Rejected).count();
                if next.key == KeyFate::Release {
                    released = true;
                    // No charge can have been sent: there was no attempt, or it is known not to have been dispatched.
                    prop_assert!(matches!(next.order.payment.state,
                        OrderPaymentState::None | OrderPaymentState::NotDispatched | OrderPaymentState::Fenced));
                    prop_assert_ne!(order.payment.state, OrderPaymentState::Unknown);
                }
                if order.payment.attempt_id.is_some() {
                    prop_assert_eq!(order.payment.attempt_id, next.order.payment.attempt_id);
                    prop_assert_eq!(order.price, next.order.price);
                }
                order = next.order;
                let price = order.price;
                prop_assert_eq!(price.total_minor, price.subtotal_minor - price.discount_minor);
                prop_assert!(price.discount_minor >= 0 && price.total_minor >= 0);
            }
            prop_assert_eq!(confirmed, usize::from(order.status == OrderStatus::Confirmed));
            prop_assert_eq!(rejected, usize::from(order.status == OrderStatus::Rejected));
            prop_assert_eq!(order.status == OrderStatus::Confirmed, order.payment.state == OrderPaymentState::Approved);
            prop_assert_eq!(order.status == OrderStatus::Rejected, order.reason.is_some());
            prop_assert!(!released || order.status == OrderStatus::Rejected);
        }
    }
}
