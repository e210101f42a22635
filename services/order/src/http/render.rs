//! The order resource, from the order as the workflow knows it.

use contracts::order::{Order, OrderCoupon, OrderItem, OrderPayment};

use crate::domain;

pub fn resource(order: domain::Order) -> Order {
    let item = |line: domain::Line| {
        // Until the reservation has fixed them, there is neither a name nor a price.
        let (name, unit_price_minor) = line.named.unwrap_or_default();
        OrderItem { sku: line.sku, name, quantity: line.quantity, unit_price_minor }
    };
    Order {
        id: order.id,
        status: order.status,
        status_reason: order.reason,
        items: order.lines.into_iter().map(item).collect(),
        currency: order.price.currency,
        subtotal_minor: order.price.subtotal_minor,
        discount_minor: order.price.discount_minor,
        total_minor: order.price.total_minor,
        coupon: OrderCoupon { code: order.coupon.code, state: order.coupon.state },
        payment: OrderPayment {
            attempt_id: order.payment.attempt_id,
            state: order.payment.state,
            channel: order.payment.channel.map(|channel| channel.as_str().to_owned()),
            refunded_minor: order.payment.refunded_minor,
        },
        degraded: order.degraded,
        recommendations: order.suggestions,
        created_at: order.created_at,
        updated_at: order.updated_at,
    }
}
