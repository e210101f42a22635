//! Orders as the services leave them: each a row in every store that has to do with it.

use contracts::{
    OrderId, UserId,
    event::{
        CouponCompensate, CouponSettled, EventData, OrderCancelled, OrderConfirmed, OrderRejected, PaymentApproved,
    },
};
use oracle::Answer;
use serde_json::json;
use uuid::Uuid;

use crate::scene::{Scene, Store};

/// An order and what belongs to it.
#[derive(Debug, Clone)]
pub struct Sale {
    pub id: Uuid,
    pub user: Uuid,
    pub attempt: Uuid,
    /// The provider's id of the charge.
    pub charge: String,
}

impl Sale {
    fn new() -> Self {
        let charge = String::new();
        Self { id: Uuid::now_v7(), user: Uuid::new_v4(), attempt: Uuid::now_v7(), charge }
    }

    pub fn subject(&self) -> String {
        format!("order {}", self.id)
    }
}

/// Price of a unit.
pub const PRICE: i64 = 500;

impl Scene {
    /// Two units, confirmed and paid.
    pub async fn confirmed(&self, sku: &str) -> Sale {
        self.sold(sku, "none", 0).await
    }

    /// The same with a coupon that took its discount off.
    pub async fn confirmed_with_coupon(&self, sku: &str) -> Sale {
        let sale = self.sold(sku, "applied", 100).await;
        self.redeemed(&sale).await;
        sale
    }

    /// The same with a coupon that was honoured later: its discount went back.
    pub async fn confirmed_with_late_coupon(&self, sku: &str) -> Sale {
        let sale = self.sold(sku, "refunded", 0).await;
        self.redeemed(&sale).await;
        self.order.run(format!("update orders set refunded_minor = 100 where id = '{}'", sale.id)).await;
        self.channels[0].refund(&sale.charge, 100);
        let settled = json!({"state": "honoured", "discount_minor": 100});
        self.coupon
            .run(format!(
                "insert into compensations (order_id, state, discount_minor, settled_by)
                 values ('{}', 'honoured', 100, gen_random_uuid())",
                sale.id
            ))
            .await;
        self.said(&self.order, CouponCompensate::TYPE, &sale, json!({}), &[(&self.coupon, "coupon")]).await;
        let settled = json!({"outcome": settled});
        self.said(&self.coupon, CouponSettled::TYPE, &sale, settled, &[(&self.order, "order")]).await;
        sale
    }

    /// Confirmed, then taken back: refunded and returned.
    pub async fn cancelled(&self, sku: &str) -> Sale {
        let sale = self.sold(sku, "none", 0).await;
        self.order
            .run(format!(
                "update orders set status = 'cancelled', status_reason = 'user_cancelled', payment_state = 'refunded',
                                   refunded_minor = total_minor where id = '{0}';
                 insert into order_history (order_id, at, from_status, to_status, event)
                 values ('{0}', now(), 'confirmed', 'cancelled', 'cancel_requested')",
                sale.id
            ))
            .await;
        self.inventory
            .run(format!(
                "update reservations set state = 'returned' where order_id = '{}';
                 update stock set on_hand = on_hand + 2, sold = sold - 2 where sku = '{sku}'",
                sale.id
            ))
            .await;
        self.channels[0].refund(&sale.charge, 2 * PRICE);
        let consumers = [(&self.inventory, "inventory"), (&self.coupon, "coupon")];
        self.said(&self.order, OrderCancelled::TYPE, &sale, json!({}), &consumers).await;
        sale
    }

    /// Rejected before anything was charged.
    pub async fn rejected(&self, sku: &str, reason: &str) -> Sale {
        let sale = Sale::new();
        self.ordered(&sale, sku, ("rejected", Some(reason)), ("none", 0), ("none", false)).await;
        self.inventory
            .run(format!("insert into reservations (order_id, state) values ('{}', 'released')", sale.id))
            .await;
        let consumers = [(&self.inventory, "inventory"), (&self.coupon, "coupon")];
        self.said(&self.order, OrderRejected::TYPE, &sale, json!({}), &consumers).await;
        sale
    }

    /// Its outcome is unknown, and its stock is held.
    pub async fn pending(&self, sku: &str, attempt_state: &str) -> Sale {
        let sale = Sale::new();
        self.ordered(&sale, sku, ("payment_pending", None), ("none", 0), ("unknown", true)).await;
        self.attempted(&sale, attempt_state).await;
        self.reserved(&sale, sku, "held").await;
        self.inventory.run(format!("update stock set reserved = reserved + 2 where sku = '{sku}'")).await;
        sale
    }

    async fn sold(&self, sku: &str, coupon: &str, discount: i64) -> Sale {
        let mut sale = Sale::new();
        self.ordered(&sale, sku, ("confirmed", None), (coupon, discount), ("approved", true)).await;
        sale.charge = self.channels[0].charge(sale.attempt, sale.id, 2 * PRICE - discount);
        self.attempted(&sale, "approved").await;
        self.reserved(&sale, sku, "committed").await;
        self.inventory
            .run(format!("update stock set on_hand = on_hand - 2, sold = sold + 2 where sku = '{sku}'"))
            .await;
        self.recommendation
            .run(format!(
                "insert into products values ('{sku}', 'Thing', now()) on conflict do nothing;
                 insert into trending (day, sku) values (current_date, '{sku}')
                 on conflict on constraint trending_pkey do update set orders = trending.orders + 1"
            ))
            .await;
        self.said(&self.payment, PaymentApproved::TYPE, &sale, json!({}), &[(&self.order, "order")]).await;
        let mut consumers = vec![(&self.inventory, "inventory"), (&self.recommendation, "recommendation")];
        let mut data = json!({});
        if coupon == "applied" {
            data = json!({"coupon_code": "OFF"});
            consumers.push((&self.coupon, "coupon"));
        }
        self.said(&self.order, OrderConfirmed::TYPE, &sale, data, &consumers).await;
        sale
    }

    async fn redeemed(&self, sale: &Sale) {
        self.coupon
            .run(format!(
                "insert into redemptions (order_id, state, code, user_id, subtotal_minor, currency, discount_minor)
                 values ('{}', 'committed', 'OFF', '{}', 1000, 'USD', 100);
                 update coupons set redeemed = redeemed + 1",
                sale.id, sale.user
            ))
            .await;
    }

    /// The order, its lines, its key and its history.
    async fn ordered(
        &self,
        sale: &Sale,
        sku: &str,
        (status, reason): (&str, Option<&str>),
        (coupon, discount): (&str, i64),
        (payment, attempted): (&str, bool),
    ) {
        let Sale { id, user, attempt, .. } = sale;
        let text = |value: Option<String>| value.map_or_else(|| "null".to_owned(), |value| format!("'{value}'"));
        let reason = text(reason.map(str::to_owned));
        let attempt = text(attempted.then(|| attempt.to_string()));
        let code = text((coupon != "none").then(|| "OFF".to_owned()));
        self.order
            .run(format!(
                "insert into orders (id, user_id, status, status_reason, currency, subtotal_minor, discount_minor,
                                     total_minor, coupon_code, coupon_state, payment_method, attempt_id, payment_state,
                                     created_at, updated_at, pending_since)
                 values ('{id}', '{user}', '{status}', {reason}, 'USD', 1000, {discount}, 1000 - {discount}, {code},
                         '{coupon}', 'tok_approve', {attempt}, '{payment}', now(), now(), now());
                 insert into order_items values ('{id}', 0, '{sku}', 2, 'Thing', {PRICE});
                 insert into idempotency_keys (user_id, method, path, key, fingerprint, resource_id, lease_until, outcome)
                 values ('{user}', 'POST', '/v1/orders', 'key of {id}', '', '{id}', now(), 201);
                 insert into order_history (order_id, at, from_status, to_status, event)
                 values ('{id}', now(), null, 'created', 'submitted'),
                        ('{id}', now(), 'created', '{status}', 'something')"
            ))
            .await;
    }

    async fn attempted(&self, sale: &Sale, state: &str) {
        let reference = if state == "approved" { format!("'{}'", sale.charge) } else { "null".to_owned() };
        self.payment
            .run(format!(
                "insert into attempts (id, order_id, amount_minor, currency, payment_method, state, channel,
                                       dispatch_no, provider_ref, created_at, updated_at, last_may_have_left_at,
                                       primary_intent_at)
                 values ('{}', '{}', 1000, 'USD', 'tok_approve', '{state}', 'primary', 1, {reference}, now(), now(),
                         now(), now())",
                sale.attempt, sale.id
            ))
            .await;
    }

    /// What payment knows of a charge that goes back.
    pub async fn refund(&self, sale: &Sale, channel: &str, charge: &str, state: &str) {
        self.payment
            .run(format!(
                "insert into charges (channel, provider_ref, key, amount_minor, currency, role, found_by)
                 values ('{channel}', '{charge}', '{0}', 1000, 'USD', 'extra', 'ledger');
                 insert into refunds (id, channel, provider_ref, amount_minor, currency, reason, order_id, attempt_id,
                                      state, created_at, updated_at)
                 values (gen_random_uuid(), '{channel}', '{charge}', 1000, 'USD', 'test', '{1}', '{0}', '{state}',
                         now(), now())",
                sale.attempt, sale.id
            ))
            .await;
    }

    async fn reserved(&self, sale: &Sale, sku: &str, state: &str) {
        self.inventory
            .run(format!(
                "insert into reservations (order_id, state) values ('{0}', '{state}');
                 insert into reservation_items (order_id, position, sku, name, quantity, unit_price_minor, currency)
                 values ('{0}', 0, '{sku}', 'Thing', 2, {PRICE}, 'USD')",
                sale.id
            ))
            .await;
    }

    /// An event that was published, and taken in by those who must.
    pub async fn said(
        &self,
        by: &Store,
        kind: &str,
        sale: &Sale,
        data: serde_json::Value,
        taken_in: &[(&Store, &str)],
    ) -> Uuid {
        let event = Uuid::now_v7();
        let payload = json!({"type": kind, "data": data});
        by.run(format!(
            "insert into outbox (event_id, topic, key, payload, published_at)
             values ('{event}', 't', '{}', '{payload}', now())",
            sale.id
        ))
        .await;
        for (store, consumer) in taken_in {
            store.run(format!("insert into inbox (consumer, event_id) values ('{consumer}', '{event}')")).await;
        }
        event
    }
}

/// What a client was told of an order that it placed.
pub fn told(sale: &Sale, status: u16, body: serde_json::Value) -> Answer {
    let mut body = body;
    let name = if body["type"].is_null() { "id" } else { "order_id" };
    body[name] = json!(OrderId::from_uuid(sale.id));
    let key = format!("key of {}", sale.id);
    Answer::new(UserId::from_uuid(sale.user), Some(&key), "POST", "/v1/orders", status, &body)
}
