//! What is there: rows as plain data, so that the invariants are functions of values that a test can make.

pub(crate) mod read;

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use contracts::{
    order::{OrderCouponState, OrderPaymentState, OrderStatus},
    payment::{AttemptState, RefundState},
    provider::Ledger,
};
use events::dlq::DeadLetter;
use sqlx::FromRow;
use uuid::Uuid;

use crate::Answer;

/// All that the invariants speak of. It is held in memory whole: a drill leaves some ten thousand orders behind.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// By the order database's clock.
    pub at: DateTime<Utc>,
    pub orders: BTreeMap<Uuid, Order>,
    pub keys: Vec<Key>,
    pub attempts: BTreeMap<Uuid, Attempt>,
    /// As payment knows them.
    pub refunds: Vec<Refund>,
    /// What the provider said by itself, and payment has not acted upon.
    pub unread: Vec<String>,
    pub stock: Vec<Stock>,
    pub reservations: BTreeMap<Uuid, Reservation>,
    pub coupons: Vec<Coupon>,
    pub redemptions: BTreeMap<Uuid, Redemption>,
    pub compensations: BTreeMap<Uuid, Compensation>,
    /// Promised discounts that a person has to decide about, with the reason.
    pub manual: BTreeMap<Uuid, String>,
    pub outbox: Vec<OutboxEvent>,
    pub inbox: HashSet<Received>,
    /// In how many orders recommendation has seen each product.
    pub counted: BTreeMap<String, i64>,
    /// Of the provider's channels, primary first.
    pub ledgers: Vec<Ledger>,
    pub letters: Vec<DeadLetter>,
    pub answers: Vec<Answer>,
}

#[derive(Debug, Clone)]
pub struct Order {
    pub user: Uuid,
    pub status: String,
    pub reason: Option<String>,
    pub total_minor: i64,
    pub discount_minor: i64,
    pub refunded_minor: i64,
    pub coupon_code: Option<String>,
    pub coupon_state: String,
    pub attempt: Option<Uuid>,
    pub payment_state: String,
    pub created_at: DateTime<Utc>,
    pub units: BTreeMap<String, i64>,
    /// The states that it has been in, in order.
    pub course: Vec<String>,
}

impl Order {
    #[must_use]
    pub fn confirmed(&self) -> bool {
        self.status == OrderStatus::Confirmed.as_str()
    }

    /// Rejected or cancelled: nothing is sold, and no money may stay.
    #[must_use]
    pub fn dead(&self) -> bool {
        self.status == OrderStatus::Rejected.as_str() || self.status == OrderStatus::Cancelled.as_str()
    }

    #[must_use]
    pub fn settled(&self) -> bool {
        self.confirmed() || self.dead()
    }

    #[must_use]
    pub fn has_been(&self, status: &str) -> bool {
        self.status == status || self.course.iter().any(|at| at == status)
    }

    #[must_use]
    pub fn payment_is(&self, state: OrderPaymentState) -> bool {
        named(state, &self.payment_state)
    }

    #[must_use]
    pub fn coupon_is(&self, state: OrderCouponState) -> bool {
        named(state, &self.coupon_state)
    }
}

/// Whether a state of the contracts has this name.
fn named(state: impl serde::Serialize, name: &str) -> bool {
    serde_json::to_value(state).is_ok_and(|value| value == name)
}

#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Key {
    pub user_id: Uuid,
    pub path: String,
    pub key: String,
    pub resource_id: Uuid,
}

#[derive(Debug, Clone, FromRow)]
pub struct Attempt {
    pub id: Uuid,
    /// None in the tombstone of an attempt that was fenced before it was heard of.
    pub order_id: Option<Uuid>,
    pub state: String,
    pub channel: Option<String>,
    pub provider_ref: Option<String>,
}

impl Attempt {
    #[must_use]
    pub fn is(&self, state: AttemptState) -> bool {
        self.state == state.as_str()
    }
}

/// Money that payment gives back.
#[derive(Debug, Clone, FromRow)]
pub struct Refund {
    pub id: Uuid,
    pub channel: String,
    pub provider_ref: String,
    /// None of a charge that was one too many.
    pub order_id: Option<Uuid>,
    pub state: String,
}

impl Refund {
    #[must_use]
    pub fn is(&self, state: RefundState) -> bool {
        self.state == state.as_str()
    }
}

#[derive(Debug, Clone, FromRow)]
pub struct Stock {
    pub sku: String,
    pub on_hand: i64,
    pub reserved: i64,
    pub sold: i64,
    pub received: i64,
}

#[derive(Debug, Clone, Default)]
pub struct Reservation {
    pub state: String,
    pub units: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, FromRow)]
pub struct Coupon {
    pub code: String,
    pub total_limit: Option<i64>,
    pub per_user_limit: Option<i64>,
    pub redeemed: i64,
}

#[derive(Debug, Clone, FromRow)]
pub struct Redemption {
    pub order_id: Uuid,
    pub state: String,
    pub code: Option<String>,
    pub user_id: Option<Uuid>,
    pub discount_minor: i64,
}

#[derive(Debug, Clone, FromRow)]
pub struct Compensation {
    pub order_id: Uuid,
    pub state: String,
    pub discount_minor: i64,
}

/// An event in the outbox of a service.
#[derive(Debug, Clone)]
pub struct OutboxEvent {
    pub id: Uuid,
    pub kind: String,
    pub subject: String,
    pub published: bool,
    /// Consumers leave it alone until then.
    pub not_before: Option<DateTime<Utc>>,
    /// Of a confirmation: whether it redeems a coupon, and what was bought.
    pub with_coupon: bool,
    pub skus: Vec<String>,
}

/// An event that took effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, FromRow)]
pub struct Received {
    pub consumer: String,
    pub event_id: Uuid,
}

impl World {
    /// Attempts that a person looks at: their orders wait with them.
    #[must_use]
    pub fn in_review(&self, order: &Order) -> bool {
        order.attempt.and_then(|id| self.attempts.get(&id)).is_some_and(|attempt| attempt.is(AttemptState::Review))
    }
}
