//! The shop of development: products that are there from the first start on, never reset by a later one.

use std::time::Duration;

use anyhow::Context;
use durable::Database;
use resilience::Deadline;

use crate::store::products::{self, NewProduct};

/// `sku,name,unit_price_minor,on_hand`, prices in US cents. Names have no commas, so lines are simply cut.
const PRODUCTS: &str = include_str!("../seed/products.csv");

const LIMIT: Duration = Duration::from_secs(10);

/// Adds what is missing, and says how many products that were.
pub async fn seed(database: &Database) -> anyhow::Result<u64> {
    let products = read(PRODUCTS)?;
    let mut tx = database.begin(Deadline::after(LIMIT)).await?;
    let added = products::add_missing(&mut tx, &products).await?;
    tx.commit().await?;
    Ok(added)
}

fn read(text: &str) -> anyhow::Result<Vec<NewProduct>> {
    text.lines().skip(1).map(|line| product(line).with_context(|| format!("seed line `{line}`"))).collect()
}

fn product(line: &str) -> anyhow::Result<NewProduct> {
    let fields: Vec<&str> = line.split(',').collect();
    let [sku, name, price, on_hand] = fields[..] else { anyhow::bail!("has not four fields") };
    Ok(NewProduct {
        sku: sku.to_owned(),
        name: name.to_owned(),
        unit_price_minor: price.parse().context("unit_price_minor")?,
        currency: "USD",
        on_hand: on_hand.parse().context("on_hand")?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use contracts::validate::Code;

    use super::*;

    #[test]
    fn the_shop_has_at_least_200_different_products_that_can_be_ordered() {
        let products = read(PRODUCTS).unwrap();
        assert!(products.len() >= 200, "{}", products.len());
        let skus: HashSet<&str> = products.iter().map(|p| p.sku.as_str()).collect();
        let names: HashSet<&str> = products.iter().map(|p| p.name.as_str()).collect();
        assert_eq!((skus.len(), names.len()), (products.len(), products.len()));
        for p in &products {
            assert!(p.sku.parse::<Code>().is_ok() && p.unit_price_minor > 0 && p.on_hand >= 0, "{p:?}");
        }
    }

    #[test]
    fn one_product_is_down_to_its_last_unit_and_one_is_sold_out() {
        let products = read(PRODUCTS).unwrap();
        let on_hand = |sku: &str| products.iter().find(|p| p.sku == sku).map(|p| p.on_hand);
        assert_eq!(on_hand("POSTER-LAST-ONE"), Some(1));
        assert_eq!(on_hand("POSTER-SOLD-OUT"), Some(0));
    }
}
