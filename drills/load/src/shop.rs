//! What the requests of a run say: baskets, product pages, and the orders that were placed in it.

use std::collections::VecDeque;

use contracts::{
    OrderId,
    order::{ItemRequest, PlaceOrder},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use reqwest::Method;

use crate::{
    choice::Choice,
    crowd::Crowd,
    mix::Kind,
    plan::Call,
    request::{Answer, Request},
    users::{User, Users},
};

/// The users, the goods, and what is known of the orders so far.
pub struct Shop {
    users: Users,
    crowd: Crowd,
    skus: Vec<String>,
    payment: Choice,
    coupon: Choice,
    hot: Option<HotSku>,
    /// Part of every key: the same seed run twice must place orders twice, and not have the first run's answers
    /// repeated to it.
    run: String,
    placed: VecDeque<(User, OrderId)>,
}

/// What everybody wants.
#[derive(Debug, Clone, PartialEq)]
pub struct HotSku {
    pub sku: String,
    /// The share of orders that are for one of it and nothing else.
    pub share: f64,
}

/// There is nothing to sell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no product to order")]
pub struct NothingToSell;

/// The word for it among coupons.
pub const NO_COUPON: &str = "none";
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
        let (payment, coupon) = (Choice::only(payment_method), Choice::only(NO_COUPON));
        let crowd = Crowd::default();
        Ok(Self { users, crowd, skus, payment, coupon, hot: None, run: run.to_owned(), placed: VecDeque::new() })
    }

    /// Another run, told from all others by `run`: its calls are numbered from 0 again.
    pub fn begin_run(&mut self, run: &str) {
        run.clone_into(&mut self.run);
    }

    #[must_use]
    pub fn with_crowd(self, crowd: Crowd) -> Self {
        Self { crowd, ..self }
    }

    #[must_use]
    pub fn crowd(&self) -> &Crowd {
        &self.crowd
    }

    /// Orders are paid with any of these.
    #[must_use]
    pub fn paid_with(self, payment: Choice) -> Self {
        Self { payment, ..self }
    }

    /// Orders carry one of these coupons; `none` is no coupon.
    #[must_use]
    pub fn with_coupons(self, coupon: Choice) -> Self {
        Self { coupon, ..self }
    }

    #[must_use]
    pub fn with_hot_sku(self, hot: Option<HotSku>) -> Self {
        Self { hot, ..self }
    }

    /// The request of a call. Before the first order is placed there is none to read or to cancel: the user's list is read
    /// instead.
    #[must_use]
    pub fn compose(&self, call: &Call) -> Request {
        let mut chance = StdRng::seed_from_u64(call.luck);
        let tag = format!("load-{}-{}", self.run, call.number);
        let mut user = self.users.get(call.user);
        let mut hot = call.hot;
        let (mut kind, mut method, mut key, mut body) = (call.kind, Method::GET, None, None);
        let path = match call.kind {
            Kind::PlaceOrder => {
                let (basket, wanted) = self.basket(&mut chance);
                hot |= wanted;
                (method, key, body) =
                    (Method::POST, Some(format!("load-{}-{}", self.run, call.original)), Some(basket));
                "/v1/orders".to_owned()
            }
            Kind::ReadOrder | Kind::CancelOrder if !self.placed.is_empty() => {
                let (owner, order) = &self.placed[chance.random_range(0..self.placed.len())];
                user = owner;
                if call.kind == Kind::CancelOrder {
                    method = Method::POST;
                    format!("/v1/orders/{order}/cancel")
                } else {
                    format!("/v1/orders/{order}")
                }
            }
            Kind::ReadOrder | Kind::CancelOrder | Kind::ListOrders => {
                kind = Kind::ListOrders;
                format!("/v1/orders?limit={PAGE}")
            }
            Kind::ProductPage => format!("/v1/products/{}", self.skus[chance.random_range(0..self.skus.len())]),
            Kind::ListProducts => format!("/v1/products?limit={PAGE}"),
        };
        let (user, token) = (user.id, user.token.clone());
        Request { number: call.number, attempt: 0, kind, hot, user, token, method, path, key, body, request_id: tag }
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

    /// A basket, and whether it is for what everybody wants.
    fn basket(&self, chance: &mut StdRng) -> (PlaceOrder, bool) {
        let lines = chance.random_range(1..=MAX_LINES);
        let skus: Vec<&String> = self.skus.choose_multiple(chance, lines).collect();
        let items = skus
            .into_iter()
            .map(|sku| ItemRequest { sku: sku.clone(), quantity: chance.random_range(1..=MAX_QUANTITY) });
        let mut items: Vec<ItemRequest> = items.collect();
        let payment_method = self.payment.pick(chance).to_owned();
        let coupon = self.coupon.pick(chance);
        let coupon_code = (coupon != NO_COUPON).then(|| coupon.to_owned());
        let wanted = self.hot.as_ref().filter(|hot| chance.random::<f64>() < hot.share);
        if let Some(hot) = wanted {
            items = vec![ItemRequest { sku: hot.sku.clone(), quantity: 1 }];
        }
        (PlaceOrder { items, coupon_code, payment_method }, wanted.is_some())
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
        Call { number: luck, at: Duration::ZERO, kind, user: 3, hot: false, original: luck, luck }
    }

    fn answer(request: Request, status: u16, order: OrderId) -> Answer {
        Answer {
            request: Arc::new(request),
            outcome: Outcome::Status(status),
            last: true,
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

    #[test]
    fn an_order_is_cancelled_by_its_owner_once_there_is_one() {
        let mut shop = shop();
        assert_eq!(shop.compose(&call(Kind::CancelOrder, 1)).kind, Kind::ListOrders);
        let order = OrderId::generate();
        let placed = shop.compose(&Call { user: 7, ..call(Kind::PlaceOrder, 1) });
        let owner = placed.user;
        shop.remember(&answer(placed, 201, order));
        let cancel = shop.compose(&call(Kind::CancelOrder, 2));
        assert_eq!((cancel.kind, cancel.method.as_str(), cancel.user), (Kind::CancelOrder, "POST", owner));
        assert_eq!((cancel.path, cancel.key), (format!("/v1/orders/{order}/cancel"), None));
    }

    #[test]
    fn orders_carry_the_coupons_and_are_paid_with_the_methods_that_are_chosen() {
        let shop = shop()
            .with_coupons("WELCOME10=1,none=1".parse().unwrap())
            .paid_with("tok_approve=1,tok_decline=1".parse().unwrap());
        let bodies: Vec<PlaceOrder> =
            (0..400).map(|luck| shop.compose(&call(Kind::PlaceOrder, luck)).body.unwrap()).collect();
        let with_coupon = bodies.iter().filter(|body| body.coupon_code.as_deref() == Some("WELCOME10")).count();
        let without = bodies.iter().filter(|body| body.coupon_code.is_none()).count();
        let declined = bodies.iter().filter(|body| body.payment_method == "tok_decline").count();
        assert_eq!(with_coupon + without, 400);
        assert!((150..250).contains(&with_coupon) && (150..250).contains(&declined), "{with_coupon} {declined}");
    }

    #[test]
    fn what_everybody_wants_is_ordered_alone_and_as_often_as_said() {
        let shop = shop().with_hot_sku(Some(HotSku { sku: "LAST".into(), share: 0.5 }));
        let requests: Vec<Request> = (0..400).map(|luck| shop.compose(&call(Kind::PlaceOrder, luck))).collect();
        let hot: Vec<&Request> = requests.iter().filter(|request| request.hot).collect();
        assert!((150..250).contains(&hot.len()), "{}", hot.len());
        for request in hot {
            let items = &request.body.as_ref().unwrap().items;
            assert_eq!((items.len(), items[0].sku.as_str(), items[0].quantity), (1, "LAST", 1));
        }
    }

    #[test]
    fn the_same_call_in_another_run_is_another_order() {
        let mut shop = shop();
        let first = shop.compose(&call(Kind::PlaceOrder, 8));
        shop.begin_run("u");
        let second = shop.compose(&call(Kind::PlaceOrder, 8));
        assert_eq!(first.body, second.body);
        assert!(first.key != second.key && first.request_id != second.request_id);
    }

    #[test]
    fn copies_of_a_request_have_one_key_and_one_body() {
        let shop = shop();
        let first = call(Kind::PlaceOrder, 8);
        let (a, b) = (shop.compose(&first), shop.compose(&Call { number: 9, ..first }));
        assert_eq!((a.key, a.body, a.user), (b.key, b.body, b.user));
        assert_ne!(a.request_id, b.request_id);
    }
}
