//! Order's own `decide`, asked in the model's words.
//!
//! All orders of a world share one id, one attempt id and one moment: `decide` compares them for equality alone, and
//! which order a message is for is the model's to know. Each question is asked once a thread and its answer is kept.

use std::{cell::RefCell, collections::HashMap};

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, Currency, OrderId, Problem, ProblemType, RefundId, UserId,
    event::CouponOutcome,
    order::{OrderCouponState, OrderPaymentState, OrderStatus},
};
use order::domain::{Coupon, Effect, Event, KeyFate, Line, Order, Payment, Price, RefundPurpose, Refusal};
use uuid::Uuid;

use crate::{
    rows::{Row, Shelf},
    world::{Purpose, Side},
};

pub type OrderRow = Row<Order>;

/// What an order costs, and what its coupon takes off.
pub const PRICE: i64 = 10;
pub const DISCOUNT: i64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderEvent {
    StockHeld,
    OutOfStock,
    /// Inventory refuses a hold whose release came first.
    StockReleased,
    StockUnknown,
    CouponHeld,
    CouponPending,
    CouponRefused,
    Expired,
    ChargeIntended,
    Approved(Side),
    Declined(Side),
    NotDispatched {
        left: bool,
        may_wait: bool,
    },
    PaymentUnknown,
    InReview,
    Fenced,
    CancelRequested,
    Refunded(Purpose, i64),
    CouponSettled {
        honoured: bool,
    },
}

#[derive(Debug, Clone)]
pub struct Decided {
    pub row: OrderRow,
    pub effects: Vec<Effect>,
    pub key: KeyFate,
}

/// Kept for good, like the rows.
pub type Answer = Result<&'static Decided, Refusal>;

static ORDERS: Shelf<Order> = Shelf::new();

thread_local! {
    static ANSWERS: RefCell<HashMap<(OrderRow, OrderEvent), Answer>> = RefCell::default();
}

const ORDER: OrderId = OrderId::from_uuid(Uuid::from_u128(1));
const ATTEMPT: AttemptId = AttemptId::from_uuid(Uuid::from_u128(2));

/// The only moment of the model: what time would decide is an action instead.
pub const NOW: DateTime<Utc> = DateTime::<Utc>::UNIX_EPOCH;

pub fn decide(row: OrderRow, event: OrderEvent) -> Answer {
    ANSWERS.with_borrow_mut(|answers| {
        *answers.entry((row, event)).or_insert_with(|| {
            let transition = order::domain::decide(&row, &said(event), NOW)?;
            let decided = Decided { row: keep(transition.order), effects: transition.effects, key: transition.key };
            let decided: &'static Decided = Box::leak(Box::new(decided));
            Ok(decided)
        })
    })
}

pub fn keep(order: Order) -> OrderRow {
    ORDERS.keep(order)
}

/// An order that has just been submitted.
pub fn submitted(with_coupon: bool) -> OrderRow {
    keep(Order {
        id: ORDER,
        user_id: UserId::from_uuid(Uuid::from_u128(3)),
        tenant: None,
        status: OrderStatus::Created,
        reason: None,
        version: 0,
        lines: vec![Line { sku: "TEA".to_owned(), quantity: 1, named: None }],
        price: Price::unknown(Currency::USD),
        coupon: Coupon { code: with_coupon.then(|| "TWO-OFF".to_owned()), state: OrderCouponState::None },
        payment_method: "card".to_owned(),
        payment: Payment { attempt_id: None, state: OrderPaymentState::None, channel: None, refunded_minor: 0 },
        cancel_requested: false,
        refunds: Vec::new(),
        degraded: Vec::new(),
        suggestions: Vec::new(),
        problem: None,
        traceparent: None,
        created_at: NOW,
        updated_at: NOW,
    })
}

/// The event in the domain's words.
fn said(event: OrderEvent) -> Event {
    let attempt = ATTEMPT;
    let problem = |kind| Box::new(Problem::new(kind, "no"));
    match event {
        OrderEvent::StockHeld => Event::StockHeld {
            lines: vec![Line { sku: "TEA".to_owned(), quantity: 1, named: Some(("Tea".to_owned(), PRICE)) }],
            currency: Currency::USD,
        },
        OrderEvent::OutOfStock => Event::StockRefused(problem(ProblemType::OutOfStock)),
        OrderEvent::StockReleased => Event::StockRefused(problem(ProblemType::ReservationReleased)),
        OrderEvent::StockUnknown => Event::StockUnknown,
        OrderEvent::CouponHeld => Event::CouponHeld { discount_minor: DISCOUNT },
        OrderEvent::CouponPending => Event::CouponPending,
        OrderEvent::CouponRefused => Event::CouponRefused(problem(ProblemType::CouponExhausted)),
        OrderEvent::Expired => Event::Expired,
        OrderEvent::ChargeIntended => Event::ChargeIntended(attempt),
        OrderEvent::Approved(side) => Event::Approved { attempt, channel: side.channel() },
        OrderEvent::Declined(side) => Event::Declined { attempt, channel: side.channel(), code: "no".to_owned() },
        OrderEvent::NotDispatched { left, may_wait } => Event::NotDispatched {
            attempt,
            left,
            reason: "breaker_open".to_owned(),
            defer_up_to: may_wait.then_some(PRICE),
        },
        OrderEvent::PaymentUnknown => Event::PaymentUnknown { attempt },
        OrderEvent::InReview => Event::InReview { attempt },
        OrderEvent::Fenced => Event::Fenced { attempt },
        OrderEvent::CancelRequested => Event::CancelRequested,
        OrderEvent::Refunded(purpose, amount_minor) => {
            Event::Refunded { refund: RefundId::derive(ORDER, purpose.domain().as_str()), amount_minor }
        }
        OrderEvent::CouponSettled { honoured: true } => {
            Event::CouponSettled(CouponOutcome::Honoured { discount_minor: DISCOUNT })
        }
        OrderEvent::CouponSettled { honoured: false } => {
            Event::CouponSettled(CouponOutcome::Refused { reason: "no".to_owned() })
        }
    }
}

impl Purpose {
    #[must_use]
    pub const fn domain(self) -> RefundPurpose {
        match self {
            Self::Full => RefundPurpose::Full,
            Self::Coupon => RefundPurpose::Coupon,
        }
    }
}

impl From<RefundPurpose> for Purpose {
    fn from(purpose: RefundPurpose) -> Self {
        match purpose {
            RefundPurpose::Full => Self::Full,
            RefundPurpose::Coupon => Self::Coupon,
        }
    }
}
