//! The rows, read: SQL alone, no judgement.

use std::collections::{BTreeMap, HashSet};

use anyhow::Context;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

use super::{Order, OutboxEvent, Received, Reservation, World};
use crate::Stores;

pub(crate) async fn databases(stores: &Stores) -> anyhow::Result<World> {
    let mut world = World::default();
    // Effects come into being while this reads. An inbox is read before what its events did, so that no event counts as
    // applied whose effect was not there yet; an outbox after what its events tell of, so that none is overlooked.
    let Stores { order: orders, payment: payments, coupon: coupons, inventory: stock, recommendation: pairs, .. } =
        stores;
    for (name, db) in
        [("order", orders), ("payment", payments), ("coupon", coupons), ("inventory", stock), ("recommendation", pairs)]
    {
        world.inbox.extend(inbox(db).await.with_context(|| cannot_read(name))?);
    }
    order(orders, &mut world).await.with_context(|| cannot_read("order"))?;
    payment(payments, &mut world).await.with_context(|| cannot_read("payment"))?;
    inventory(stock, &mut world).await.with_context(|| cannot_read("inventory"))?;
    coupon(coupons, &mut world).await.with_context(|| cannot_read("coupon"))?;
    recommendation(pairs, &mut world).await.with_context(|| cannot_read("recommendation"))?;
    for (name, db) in [("order", orders), ("payment", payments), ("coupon", coupons)] {
        world.outbox.extend(outbox(db).await.with_context(|| cannot_read(name))?);
    }
    Ok(world)
}

fn cannot_read(database: &str) -> String {
    format!("the {database} database cannot be read")
}

#[derive(FromRow)]
struct OrderRow {
    id: Uuid,
    user_id: Uuid,
    status: String,
    status_reason: Option<String>,
    total_minor: i64,
    discount_minor: i64,
    refunded_minor: i64,
    coupon_code: Option<String>,
    coupon_state: String,
    attempt_id: Option<Uuid>,
    payment_state: String,
    created_at: DateTime<Utc>,
}

async fn order(db: &PgPool, world: &mut World) -> sqlx::Result<()> {
    world.at = sqlx::query_scalar("select clock_timestamp()").fetch_one(db).await?;
    let rows: Vec<OrderRow> = sqlx::query_as(
        "select id, user_id, status, status_reason, total_minor, discount_minor, refunded_minor, coupon_code,
                coupon_state, attempt_id, payment_state, created_at
           from orders",
    )
    .fetch_all(db)
    .await?;
    let order = |row: OrderRow| Order {
        user: row.user_id,
        status: row.status,
        reason: row.status_reason,
        total_minor: row.total_minor,
        discount_minor: row.discount_minor,
        refunded_minor: row.refunded_minor,
        coupon_code: row.coupon_code,
        coupon_state: row.coupon_state,
        attempt: row.attempt_id,
        payment_state: row.payment_state,
        created_at: row.created_at,
        units: BTreeMap::new(),
        course: Vec::new(),
    };
    world.orders = rows.into_iter().map(|row| (row.id, order(row))).collect();
    let lines: Vec<(Uuid, String, i64)> =
        sqlx::query_as("select order_id, sku, quantity from order_items").fetch_all(db).await?;
    for (id, sku, quantity) in lines {
        if let Some(order) = world.orders.get_mut(&id) {
            *order.units.entry(sku).or_default() += quantity;
        }
    }
    let course: Vec<(Uuid, String)> =
        sqlx::query_as("select order_id, to_status from order_history order by id").fetch_all(db).await?;
    for (id, status) in course {
        if let Some(order) = world.orders.get_mut(&id) {
            order.course.push(status);
        }
    }
    world.keys = sqlx::query_as("select user_id, path, key, resource_id from idempotency_keys").fetch_all(db).await?;
    Ok(())
}

async fn payment(db: &PgPool, world: &mut World) -> sqlx::Result<()> {
    let attempts: Vec<super::Attempt> =
        sqlx::query_as("select id, order_id, state, channel, provider_ref from attempts").fetch_all(db).await?;
    world.attempts = attempts.into_iter().map(|attempt| (attempt.id, attempt)).collect();
    world.refunds =
        sqlx::query_as("select id, channel, provider_ref, order_id, state from refunds").fetch_all(db).await?;
    world.unread =
        sqlx::query_scalar("select id from provider_events where processed_at is null").fetch_all(db).await?;
    Ok(())
}

async fn inventory(db: &PgPool, world: &mut World) -> sqlx::Result<()> {
    world.stock =
        sqlx::query_as("select sku, on_hand, reserved, sold, received from stock order by sku").fetch_all(db).await?;
    let reservations: Vec<(Uuid, String)> =
        sqlx::query_as("select order_id, state from reservations").fetch_all(db).await?;
    let empty = |state| Reservation { state, units: BTreeMap::new() };
    world.reservations = reservations.into_iter().map(|(id, state)| (id, empty(state))).collect();
    let lines: Vec<(Uuid, String, i64)> =
        sqlx::query_as("select order_id, sku, quantity from reservation_items").fetch_all(db).await?;
    for (id, sku, quantity) in lines {
        *world.reservations.entry(id).or_default().units.entry(sku).or_default() += quantity;
    }
    Ok(())
}

async fn coupon(db: &PgPool, world: &mut World) -> sqlx::Result<()> {
    world.coupons = sqlx::query_as("select code, total_limit, per_user_limit, redeemed from coupons order by code")
        .fetch_all(db)
        .await?;
    let redemptions: Vec<super::Redemption> =
        sqlx::query_as("select order_id, state, code, user_id, discount_minor from redemptions").fetch_all(db).await?;
    world.redemptions = redemptions.into_iter().map(|redemption| (redemption.order_id, redemption)).collect();
    let compensations: Vec<super::Compensation> =
        sqlx::query_as("select order_id, state, discount_minor from compensations").fetch_all(db).await?;
    world.compensations = compensations.into_iter().map(|c| (c.order_id, c)).collect();
    let manual: Vec<(Uuid, String)> =
        sqlx::query_as("select order_id, reason from manual_compensations").fetch_all(db).await?;
    world.manual = manual.into_iter().collect();
    Ok(())
}

async fn recommendation(db: &PgPool, world: &mut World) -> sqlx::Result<()> {
    let counted: Vec<(String, i64)> =
        sqlx::query_as("select sku, sum(orders)::bigint from trending group by sku").fetch_all(db).await?;
    world.counted = counted.into_iter().collect();
    Ok(())
}

/// What the oracle wants to know of an event.
#[derive(Deserialize)]
struct Glance {
    #[serde(rename = "type")]
    kind: String,
    notbefore: Option<DateTime<Utc>>,
    #[serde(default)]
    data: GlanceData,
}

#[derive(Default, Deserialize)]
struct GlanceData {
    coupon_code: Option<String>,
    #[serde(default)]
    items: Vec<GlanceItem>,
}

#[derive(Deserialize)]
struct GlanceItem {
    sku: String,
}

async fn outbox(db: &PgPool) -> anyhow::Result<Vec<OutboxEvent>> {
    let rows: Vec<(Uuid, String, String, bool)> =
        sqlx::query_as("select event_id, key, payload, published_at is not null from outbox order by id")
            .fetch_all(db)
            .await?;
    let event = |(id, subject, payload, published): (Uuid, String, String, bool)| {
        let glance: Glance =
            serde_json::from_str(&payload).with_context(|| format!("event {id} in an outbox is unreadable"))?;
        let with_coupon = glance.data.coupon_code.is_some();
        let skus = glance.data.items.into_iter().map(|item| item.sku).collect();
        Ok(OutboxEvent { id, kind: glance.kind, subject, published, not_before: glance.notbefore, with_coupon, skus })
    };
    rows.into_iter().map(event).collect()
}

async fn inbox(db: &PgPool) -> sqlx::Result<HashSet<Received>> {
    let rows: Vec<Received> = sqlx::query_as("select consumer, event_id from inbox").fetch_all(db).await?;
    Ok(rows.into_iter().collect())
}
