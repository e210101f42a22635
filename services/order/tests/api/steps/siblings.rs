//! Siblings that keep books, so that what an order did to them can be checked afterwards. What they answer is what the
//! real ones would; one call, by its number, can go wrong.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use contracts::{
    AttemptId, Event, OrderId, RefundId, coupon::RedemptionState, inventory::ReservationState, payment::AttemptState,
};
use serde_json::json;
use testkit::{Reply, stub::Seen};

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
