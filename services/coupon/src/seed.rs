//! The coupons of development, one for each way in which a coupon can be accepted or refused. They are there from the
//! first start on, never reset by a later one.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use contracts::{
    Currency,
    coupon::{Coupon, Discount},
};
use durable::Database;
use resilience::Deadline;

use crate::store::coupons;

const LIMIT: Duration = Duration::from_secs(10);

/// Adds what is missing, and says how many coupons that were.
pub async fn seed(database: &Database) -> anyhow::Result<u64> {
    let mut tx = database.begin(Deadline::after(LIMIT)).await?;
    let added = coupons::add_missing(&mut tx, &all()).await?;
    tx.commit().await?;
    Ok(added)
}

fn all() -> [Coupon; 5] {
    let years = |n: i64| DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(365 * n);
    let percent = |code: &str, percent| Coupon {
        code: code.to_owned(),
        discount: Discount::Percent { percent },
        total_limit: None,
        per_user_limit: None,
        redeemed: 0,
        valid_from: years(50),
        valid_until: years(200),
    };
    let five_off = Discount::Fixed { amount_minor: 500, currency: Currency::USD };
    [
        percent("WELCOME10", 10),
        Coupon { discount: five_off, ..percent("FIVEOFF", 0) },
        Coupon { per_user_limit: Some(1), ..percent("ONCE20", 20) },
        Coupon { valid_until: years(51), ..percent("EXPIRED5", 5) },
        // Exhausted by its limit, so that what is counted as redeemed is always what was.
        Coupon { total_limit: Some(0), ..percent("SOLDOUT5", 5) },
    ]
}
