//! A purchase: what recommendation takes from a confirmed order.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use contracts::{UserId, event::OrderConfirmed, order::MAX_ITEMS, validate::Violations};

/// The longest name that is kept.
const MAX_NAME_LEN: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    pub sku: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purchase {
    pub user: UserId,
    /// When the order was confirmed; not when we heard of it, so that a replay counts for the same day.
    pub at: DateTime<Utc>,
    /// Distinct, in the order of their SKUs: whoever writes them takes row locks in this order.
    pub products: Vec<Product>,
}

/// The event is readable and cannot be true: the dead-letter topic is the place for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no purchase: {0}")]
pub struct NotAPurchase(String);

impl Purchase {
    /// Checks what the database would refuse, or what would make one order write without bound.
    pub fn of(order: &OrderConfirmed, at: DateTime<Utc>) -> Result<Self, NotAPurchase> {
        let mut violations = Violations::default();
        violations.require((1..=MAX_ITEMS).contains(&order.items.len()), "items", "must have 1 to 20 entries");
        for (i, item) in order.items.iter().enumerate() {
            violations.code(&item.sku, &format!("items[{i}].sku"));
            violations.require(
                item.name.len() <= MAX_NAME_LEN && !item.name.contains('\0'),
                &format!("items[{i}].name"),
                "must be at most 300 bytes without a NUL",
            );
        }
        violations.finish().map_err(|errors| {
            let said: Vec<_> = errors.iter().map(|error| format!("{} {}", error.field, error.detail)).collect();
            NotAPurchase(said.join("; "))
        })?;
        let by_sku: BTreeMap<_, _> = order.items.iter().map(|item| (&item.sku, &item.name)).collect();
        let products = by_sku.into_iter().map(|(sku, name)| Product { sku: sku.clone(), name: name.clone() }).collect();
        Ok(Self { user: order.user_id, at, products })
    }
}

#[cfg(test)]
mod tests {
    use contracts::{Currency, OrderId, order::OrderItem};

    use super::*;

    fn order(skus: &[&str]) -> OrderConfirmed {
        let item = |sku: &&str| OrderItem {
            sku: (*sku).to_owned(),
            name: format!("Product {sku}"),
            quantity: 1,
            unit_price_minor: 100,
        };
        OrderConfirmed {
            order_id: OrderId::generate(),
            user_id: UserId::generate(),
            items: skus.iter().map(item).collect(),
            currency: Currency::USD,
            total_minor: 100,
            coupon_code: None,
        }
    }

    #[test]
    fn products_are_distinct_and_in_the_order_of_their_skus() {
        let purchase = Purchase::of(&order(&["C", "A", "B", "A"]), Utc::now()).unwrap();
        assert_eq!(purchase.products.iter().map(|p| p.sku.as_str()).collect::<Vec<_>>(), ["A", "B", "C"]);
    }

    #[test]
    fn an_order_that_cannot_be_is_refused() {
        let many: Vec<String> = (0..21).map(|n| format!("P{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for bad in [&[][..], &many, &["A B"], &[""], &["A\0"]] {
            assert!(Purchase::of(&order(bad), Utc::now()).is_err(), "{bad:?}");
        }
        let mut nul = order(&["A"]);
        nul.items[0].name.push('\0');
        assert!(Purchase::of(&nul, Utc::now()).is_err());
    }
}
