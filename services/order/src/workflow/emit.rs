//! What an order tells others, as rows of the outbox in the transaction of the change.

use chrono::{DateTime, Utc};
use contracts::{
    event::{
        CouponCompensate, EventData, OrderCancelled, OrderConfirmed, OrderRejected, PaymentDeferred,
        PaymentRefundRequested, PaymentUnknown,
    },
    order::{OrderCouponState, OrderItem, StatusReason},
};
use durable::outbox::enqueue_data;
use sqlx::PgConnection;

use crate::domain::{Effect, Order, RefundPurpose};

/// Writes the event that `effect` stands for, under an id of its own: whoever is told again has to act on what it is
/// told and not on whether it has heard it. Each raises the order's version.
pub async fn emit(conn: &mut PgConnection, order: &mut Order, effect: Effect, now: DateTime<Utc>) -> sqlx::Result<()> {
    order.version += 1;
    match effect {
        Effect::Confirmed => say(conn, order, Some(confirmed(order)), now).await,
        Effect::Rejected => {
            let reason = order.reason.unwrap_or(StatusReason::Expired);
            say(conn, order, Some(OrderRejected { order_id: order.id, reason }), now).await
        }
        Effect::Cancelled => {
            let reason = order.reason.unwrap_or(StatusReason::UserCancelled);
            say(conn, order, Some(OrderCancelled { order_id: order.id, reason }), now).await
        }
        Effect::PaymentUnknown => {
            let attempt = order.payment.attempt_id;
            let unknown = attempt.map(|attempt_id| PaymentUnknown { order_id: order.id, attempt_id });
            say(conn, order, unknown, now).await
        }
        Effect::PaymentDeferred => say(conn, order, deferred(order), now).await,
        Effect::RefundRequested(purpose) => say(conn, order, refund_requested(order, purpose), now).await,
        Effect::CompensateCoupon => say(conn, order, compensate(order), now).await,
    }
}

/// `None` cannot be: `decide` asks for no effect that the order does not have the makings of.
async fn say<D: EventData>(
    conn: &mut PgConnection,
    order: &Order,
    data: Option<D>,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    let Some(data) = data else {
        tracing::error!(order_id = %order.id, kind = D::TYPE, "an event without its content");
        return Ok(());
    };
    enqueue_data(conn, &data, order.version, order.traceparent.clone(), now).await.map(drop)
}

fn confirmed(order: &Order) -> OrderConfirmed {
    let items = order.lines.iter().filter_map(|line| {
        let (name, unit_price_minor) = line.named.clone()?;
        Some(OrderItem { sku: line.sku.clone(), name, quantity: line.quantity, unit_price_minor })
    });
    OrderConfirmed {
        order_id: order.id,
        user_id: order.user_id,
        items: items.collect(),
        currency: order.price.currency,
        total_minor: order.price.total_minor,
        // Only a coupon that took its discount off is redeemed by this event.
        coupon_code: order.coupon.code.clone().filter(|_| order.coupon.state == OrderCouponState::Applied),
    }
}

fn deferred(order: &Order) -> Option<PaymentDeferred> {
    Some(PaymentDeferred {
        order_id: order.id,
        attempt_id: order.payment.attempt_id?,
        amount_minor: order.price.total_minor,
        currency: order.price.currency,
        payment_method: order.payment_method.clone(),
    })
}

fn refund_requested(order: &Order, purpose: RefundPurpose) -> Option<PaymentRefundRequested> {
    let refund = order.refund(purpose)?;
    Some(PaymentRefundRequested {
        order_id: order.id,
        attempt_id: order.payment.attempt_id?,
        refund_id: refund.id,
        amount_minor: refund.amount_minor,
        currency: order.price.currency,
        reason: refund.reason.as_str().to_owned(),
    })
}

fn compensate(order: &Order) -> Option<CouponCompensate> {
    Some(CouponCompensate {
        order_id: order.id,
        user_id: order.user_id,
        code: order.coupon.code.clone()?,
        subtotal_minor: order.price.subtotal_minor,
        currency: order.price.currency,
    })
}
