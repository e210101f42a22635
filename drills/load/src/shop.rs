//! What the requests of a run say: baskets, product pages, and the orders that were placed in it.

use std::collections::VecDeque;

use contracts::{
    OrderId,
    order::{ItemRequest, PlaceOrder},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use reqwest::Method;

use crate::{
    mix::Kind,
    plan::Call,
    request::{Answer, Request},
    users::{User, Users},
};

/// The users, the goods, and what is known of the orders so far.
pub struct Shop {
    users: Users,
    skus: Vec<String>,
    payment_method: String,
    /// Part of every key: the same seed run twice must place orders twice, and not have the first run's answers
    /// repeated to it.
    run: String,
    placed: VecDeque<(User, OrderId)>,
}

/// There is nothing to sell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no product to order")]
pub struct NothingToSell;

const MAX_LINES: usize = 3;
/// Small, so that a run does not sell the shop out.
const MAX_QUANTITY: i64 = 2;
/// Orders to read: enough for variety, and bounded.
const REMEMBERED: usize = 1_000;
const PAGE: usize = 20;

impl Shop {
    /// `run` tells this run from all others.
    pub fn new(users: Users, skus: Vec<String>, payment_method: &str, run: &str) -> Result<Self, NothingToSell> {
        if skus.is_empty() {
            return Err(NothingToSell);
        }
        let (payment_method, run) = (payment_method.to_owned(), run.to_owned());
        Ok(Self { users, skus, payment_method, run, placed: VecDeque::new() })
    }

    /// The request of a call. Before the first order is placed there is none to read: the user's list is read instead.
    #[must_use]
    pub fn compose(&self, call: &Call) -> Request {
        let mut chance = StdRng::seed_from_u64(call.luck);
        let tag = format!("load-{}-{}", self.run, call.number);
        let mut user = self.users.get(call.user);
        let (mut kind, mut method, mut key, mut body) = (call.kind, Method::GET, None, None);
        let path = match call.kind {
            Kind::PlaceOrder => {
                (method, key, body) = (Method::POST, Some(tag.clone()), Some(self.basket(&mut chance)));
                "/v1/orders".to_owned()
            }
            Kind::ReadOrder if !self.placed.is_empty() => {
                let (owner, order) = &self.placed[chance.random_range(0..self.placed.len())];
                user = owner;
                format!("/v1/orders/{order}")
            }
            Kind::ReadOrder | Kind::ListOrders => {
                kind = Kind::ListOrders;
                format!("/v1/orders?limit={PAGE}")
            }
            Kind::ProductPage => format!("/v1/products/{}", self.skus[chance.random_range(0..self.skus.len())]),
            Kind::ListProducts => format!("/v1/products?limit={PAGE}"),
        };
        let (user, token) = (user.id, user.token.clone());
        Request { number: call.number, kind, user, token, method, path, key, body, request_id: tag }
    }

    /// Keeps the order of an answer for later reads.
    pub fn remember(&mut self, answer: &Answer) {
        let placed = answer.request.kind == Kind::PlaceOrder && answer.outcome.is_success();
        let Some(order) = answer.order_id.filter(|_| placed) else { return };
        if self.placed.len() == REMEMBERED {
            self.placed.pop_front();
        }
        self.placed.push_back((User { id: answer.request.user, token: answer.request.token.clone() }, order));
    }

    fn basket(&self, chance: &mut StdRng) -> PlaceOrder {
        let lines = chance.random_range(1..=MAX_LINES);
        let skus: Vec<&String> = self.skus.choose_multiple(chance, lines).collect();
        let items = skus
            .into_iter()
            .map(|sku| ItemRequest { sku: sku.clone(), quantity: chance.random_range(1..=MAX_QUANTITY) });
        PlaceOrder { items: items.collect(), coupon_code: None, payment_method: self.payment_method.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, sync::Arc, time::Duration};

    use chassis::dev_secrets::AUTH_JWT_SECRET;
    use contracts::validate::Validate;

    use super::*;
    use crate::request::Outcome;

    fn shop() -> Shop {
        let users = Users::mint(NonZeroU32::new(10).unwrap(), 1, AUTH_JWT_SECRET, Duration::from_secs(60)).unwrap();
        let skus = (0..50).map(|n| format!("SKU-{n}")).collect();
        Shop::new(users, skus, "tok_approve", "t").unwrap()
    }

    fn call(kind: Kind, luck: u64) -> Call {
        Call { number: luck, at: Duration::ZERO, kind, user: 3, luck }
    }

    fn answer(request: Request, status: u16, order: OrderId) -> Answer {
        Answer {
            request: Arc::new(request),
            outcome: Outcome::Status(status),
            replayed: false,
            order_id: Some(order),
            order_status: None,
            problem: None,
            intended: Duration::ZERO,
            sent: Duration::ZERO,
            answered: Duration::ZERO,
            at: chrono::Utc::now(),
        }
    }

    #[test]
    fn every_basket_is_a_valid_order_with_a_key_of_its_own() {
        let shop = shop();
        let requests: Vec<Request> = (0..200).map(|luck| shop.compose(&call(Kind::PlaceOrder, luck))).collect();
        for request in &requests {
            request.body.as_ref().unwrap().validate().unwrap();
        }
        let keys: std::collections::HashSet<_> = requests.iter().map(|r| r.key.clone().unwrap()).collect();
        assert_eq!(keys.len(), 200);
    }

    #[test]
    fn the_same_luck_fills_the_same_basket() {
        let body = |luck| shop().compose(&call(Kind::PlaceOrder, luck)).body;
        assert_eq!(body(1), body(1));
        assert_ne!(body(1), body(2));
    }

    #[test]
    fn an_order_is_read_by_its_owner_once_there_is_one() {
        let mut shop = shop();
        let early = shop.compose(&call(Kind::ReadOrder, 1));
        assert_eq!((early.kind, early.path.as_str()), (Kind::ListOrders, "/v1/orders?limit=20"));

        let (order, dead) = (OrderId::generate(), OrderId::generate());
        let placed = shop.compose(&Call { user: 7, ..call(Kind::PlaceOrder, 1) });
        let owner = placed.user;
        shop.remember(&answer(placed.clone(), 503, dead));
        shop.remember(&answer(placed, 202, order));
        let read = shop.compose(&call(Kind::ReadOrder, 2));
        assert_eq!((read.kind, read.user, read.path), (Kind::ReadOrder, owner, format!("/v1/orders/{order}")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shop = shop();
        for luck in 0..(REMEMBERED as u64 + 50) {
            let placed = shop.compose(&call(Kind::PlaceOrder, luck));
            shop.remember(&answer(placed, 201, OrderId::generate()));
        }
        assert_eq!(shop.placed.len(), REMEMBERED);
    }
}
