//! The public order API.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    AttemptId, Currency, FieldError, OrderId, UserId,
    validate::{Validate, Violations},
};

/// The most lines of one order.
pub const MAX_ITEMS: usize = 20;
/// The most units of one line.
pub const MAX_QUANTITY: i64 = 100;

/// `POST /v1/orders`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceOrder {
    #[schema(min_items = 1, max_items = 20)]
    pub items: Vec<ItemRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, examples("WELCOME10"))]
    pub coupon_code: Option<String>,
    /// A token of the payment provider.
    #[schema(min_length = 1, max_length = 64, examples("tok_approve"))]
    pub payment_method: String,
}

/// So many units of one product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemRequest {
    #[schema(min_length = 1, max_length = 64)]
    pub sku: String,
    #[schema(minimum = 1, maximum = 100)]
    pub quantity: i64,
}

impl Validate for PlaceOrder {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        check_items(&self.items, &mut violations);
        if let Some(code) = &self.coupon_code {
            violations.code(code, "coupon_code");
        }
        violations.code(&self.payment_method, "payment_method");
        violations.finish()
    }
}

/// The rules for the lines of an order and of its reservation: 1 to 20 distinct SKUs, 1 to 100 units each.
pub fn check_items(items: &[ItemRequest], violations: &mut Violations) {
    violations.require((1..=MAX_ITEMS).contains(&items.len()), "items", "must have 1 to 20 entries");
    let mut seen = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        violations.code(&item.sku, &format!("items[{i}].sku"));
        violations.require(
            (1..=MAX_QUANTITY).contains(&item.quantity),
            &format!("items[{i}].quantity"),
            "must be 1 to 100",
        );
        violations.require(seen.insert(&item.sku), &format!("items[{i}].sku"), "must be there only once");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    Created,
    StockReserved,
    PaymentInFlight,
    PaymentPending,
    Confirmed,
    Rejected,
    Cancelled,
}

impl OrderStatus {
    /// In the order in which an order that goes well passes them; then the ways out.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::StockReserved,
        Self::PaymentInFlight,
        Self::PaymentPending,
        Self::Confirmed,
        Self::Rejected,
        Self::Cancelled,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::StockReserved => "stock_reserved",
            Self::PaymentInFlight => "payment_in_flight",
            Self::PaymentPending => "payment_pending",
            Self::Confirmed => "confirmed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing but a refund can still happen to the order.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Confirmed | Self::Rejected | Self::Cancelled)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatusReason {
    OutOfStock,
    UnknownSku,
    CouponRefused,
    InventoryUnavailable,
    PaymentDeclined,
    PaymentUnavailable,
    PaymentNotFound,
    UserCancelled,
    Expired,
}

impl StatusReason {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfStock => "out_of_stock",
            Self::UnknownSku => "unknown_sku",
            Self::CouponRefused => "coupon_refused",
            Self::InventoryUnavailable => "inventory_unavailable",
            Self::PaymentDeclined => "payment_declined",
            Self::PaymentUnavailable => "payment_unavailable",
            Self::PaymentNotFound => "payment_not_found",
            Self::UserCancelled => "user_cancelled",
            Self::Expired => "expired",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderCouponState {
    None,
    Held,
    Applied,
    /// The coupon service did not answer: full price now, the discount is settled later.
    Pending,
    Rejected,
    Refunded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderPaymentState {
    None,
    InFlight,
    Approved,
    Declined,
    /// Sent, and no answer: neither paid nor failed, until somebody who knows says so.
    Unknown,
    Deferred,
    NotDispatched,
    Fenced,
    Review,
    RefundDue,
    Refunded,
}

/// One line of an order, with the price that was fixed when its stock was reserved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrderItem {
    pub sku: String,
    pub name: String,
    pub quantity: i64,
    pub unit_price_minor: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrderCoupon {
    pub code: Option<String>,
    pub state: OrderCouponState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrderPayment {
    pub attempt_id: Option<AttemptId>,
    pub state: OrderPaymentState,
    /// `primary` or `backup`, once the provider has answered there.
    pub channel: Option<String>,
    pub refunded_minor: i64,
}

/// A product that goes with the ones ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suggestion {
    pub sku: String,
    pub name: String,
}

/// The order resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Order {
    pub id: OrderId,
    pub status: OrderStatus,
    pub status_reason: Option<StatusReason>,
    pub items: Vec<OrderItem>,
    pub currency: Currency,
    pub subtotal_minor: i64,
    pub discount_minor: i64,
    pub total_minor: i64,
    pub coupon: OrderCoupon,
    pub payment: OrderPayment,
    /// The features that answered in a degraded way.
    pub degraded: Vec<String>,
    pub recommendations: Vec<Suggestion>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// An order as operators see it: with whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatorOrder {
    pub user_id: UserId,
    pub tenant: Option<String>,
    #[serde(flatten)]
    pub order: Order,
}

/// One transition of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntry {
    pub at: DateTime<Utc>,
    pub from: Option<OrderStatus>,
    pub to: OrderStatus,
    pub event: String,
    pub detail: Option<String>,
}

/// A product page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Product {
    pub sku: String,
    pub name: String,
    pub unit_price_minor: i64,
    pub currency: Currency,
    pub availability: Availability,
    pub recommendations: Vec<Suggestion>,
    /// The features that answered in a degraded way.
    pub degraded: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Availability {
    pub available: i64,
    pub as_of: DateTime<Utc>,
    /// Whether this is an earlier answer, because inventory gave none now.
    pub stale: bool,
}

/// A page of a list; `next_cursor` is null on the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(items: Vec<ItemRequest>) -> PlaceOrder {
        PlaceOrder { items, coupon_code: None, payment_method: "tok_approve".into() }
    }

    fn item(sku: &str, quantity: i64) -> ItemRequest {
        ItemRequest { sku: sku.into(), quantity }
    }

    fn fields(request: &PlaceOrder) -> Vec<String> {
        request.validate().err().unwrap_or_default().into_iter().map(|e| e.field).collect()
    }

    #[test]
    fn a_sound_order_passes() {
        assert_eq!(order(vec![item("TEA-1", 1), item("TEA-2", 100)]).validate(), Ok(()));
    }

    #[test]
    fn every_violation_is_named_by_its_path() {
        assert_eq!(fields(&order(vec![])), ["items"]);
        assert_eq!(
            fields(&order(vec![item("A", 0), item("A", 101)])),
            ["items[0].quantity", "items[1].quantity", "items[1].sku"]
        );
        assert_eq!(fields(&order((0..21).map(|i| item(&format!("S{i}"), 1)).collect())), ["items"]);
        let bad = PlaceOrder {
            items: vec![item("a b", 1)],
            coupon_code: Some(String::new()),
            payment_method: "x".repeat(65),
        };
        assert_eq!(fields(&bad), ["items[0].sku", "coupon_code", "payment_method"]);
    }
}
