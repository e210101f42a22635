//! One transaction for each decision: load, decide, save.

mod compensate;
mod redeem;
mod settle;

pub use compensate::{Compensated, Try, compensate};
pub use redeem::{Redeemed, redeem};
pub use settle::{settle, settle_once};

use contracts::{Currency, OrderId, coupon::Redemption};

use crate::domain::Record;

/// The redemption as the API shows it.
#[must_use]
pub fn shown(order: OrderId, record: &Record) -> Redemption {
    Redemption {
        order_id: order,
        state: record.state,
        code: record.content.as_ref().map(|content| content.code.clone()),
        discount_minor: record.discount_minor,
        // A tombstone takes nothing off, in whatever currency.
        currency: record.content.as_ref().map_or(Currency::USD, |content| content.currency),
    }
}
