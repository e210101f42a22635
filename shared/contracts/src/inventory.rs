//! The internal inventory API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Currency, FieldError, OrderId,
    order::{ItemRequest, OrderItem, check_items},
    validate::{Validate, Violations},
};

/// `PUT /v1/reservations/{order_id}`: all of the items, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveStock {
    pub items: Vec<ItemRequest>,
}

impl Validate for ReserveStock {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        check_items(&self.items, &mut violations);
        violations.finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReservationState {
    Held,
    Committed,
    /// Committed, and given back since.
    Returned,
    /// Never committed; also the tombstone of an order that was never seen here.
    Released,
}

impl ReservationState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Committed => "committed",
            Self::Returned => "returned",
            Self::Released => "released",
        }
    }
}

/// The reservation of an order; a tombstone has no items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    pub order_id: OrderId,
    pub state: ReservationState,
    pub items: Vec<OrderItem>,
    pub currency: Currency,
}

/// The stock of one product. `available` is `on_hand` less `reserved`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StockLevel {
    pub sku: String,
    pub name: String,
    pub unit_price_minor: i64,
    pub currency: Currency,
    pub on_hand: i64,
    pub reserved: i64,
    pub available: i64,
}

/// The most units of one delivery.
pub const MAX_RESTOCK: i64 = 1_000_000;

/// `POST /v1/stock/{sku}/restock`: new goods, once per reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Restock {
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub quantity: i64,
    /// The delivery note, or whatever else names this delivery for good.
    #[schema(min_length = 1, max_length = 64)]
    pub reference: String,
}

impl Validate for Restock {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.require((1..=MAX_RESTOCK).contains(&self.quantity), "quantity", "must be 1 to 1000000");
        violations.code(&self.reference, "reference");
        violations.finish()
    }
}
