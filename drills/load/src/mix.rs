//! Of what the traffic consists: request kinds with weights.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `POST /v1/orders`.
    PlaceOrder,
    /// `POST /v1/orders/{id}/cancel` of an order that was placed in this run.
    CancelOrder,
    /// `GET /v1/orders/{id}` of an order that was placed in this run.
    ReadOrder,
    /// `GET /v1/orders`.
    ListOrders,
    /// `GET /v1/products/{sku}`.
    ProductPage,
    /// `GET /v1/products`.
    ListProducts,
}

/// Kinds, each as often as its weight says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    weights: Vec<(Kind, u32)>,
    total: u32,
}

/// The text is no mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a mix is default, orders, reads, or KIND=WEIGHT,… with at least one weight above 0; kinds are {}", kinds())]
pub struct BadMix;

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::PlaceOrder, Self::CancelOrder, Self::ReadOrder, Self::ListOrders, Self::ProductPage, Self::ListProducts];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlaceOrder => "place_order",
            Self::CancelOrder => "cancel_order",
            Self::ReadOrder => "read_order",
            Self::ListOrders => "list_orders",
            Self::ProductPage => "product_page",
            Self::ListProducts => "list_products",
        }
    }
}

impl Mix {
    pub fn new(weights: Vec<(Kind, u32)>) -> Result<Self, BadMix> {
        let total = weights.iter().try_fold(0_u32, |sum, (_, weight)| sum.checked_add(*weight)).ok_or(BadMix)?;
        if total == 0 { Err(BadMix) } else { Ok(Self { weights, total }) }
    }

    /// The sum of the weights.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The kind at `point`, which is below [`Self::total`].
    #[must_use]
    pub fn at(&self, mut point: u32) -> Kind {
        for (kind, weight) in &self.weights {
            if point < *weight {
                return *kind;
            }
            point -= weight;
        }
        // Not reached for a point below the total; the last kind rather than a panic in the middle of a run.
        self.weights.last().map_or(Kind::ListProducts, |(kind, _)| *kind)
    }
}

impl Default for Mix {
    /// Eight reads to two writes, of the reads most by people who look around.
    fn default() -> Self {
        let weights = vec![
            (Kind::PlaceOrder, 20),
            (Kind::ReadOrder, 20),
            (Kind::ListOrders, 10),
            (Kind::ProductPage, 35),
            (Kind::ListProducts, 15),
        ];
        Self { total: weights.iter().map(|(_, weight)| weight).sum(), weights }
    }
}

impl FromStr for Mix {
    type Err = BadMix;

    fn from_str(text: &str) -> Result<Self, BadMix> {
        match text {
            "default" => return Ok(Self::default()),
            "orders" => return Self::new(vec![(Kind::PlaceOrder, 1)]),
            "reads" => {
                return Self::new(
                    Self::default().weights.into_iter().filter(|(k, _)| *k != Kind::PlaceOrder).collect(),
                );
            }
            _ => {}
        }
        let weight = |part: &str| {
            let (kind, weight) = part.split_once('=').ok_or(BadMix)?;
            let kind = Kind::ALL.into_iter().find(|k| k.as_str() == kind.trim()).ok_or(BadMix)?;
            Ok((kind, weight.trim().parse().map_err(|_| BadMix)?))
        };
        Self::new(text.split(',').map(weight).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn kinds() -> String {
    Kind::ALL.map(Kind::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(mix: &Mix, kind: Kind) -> f64 {
        (0..mix.total()).filter(|point| mix.at(*point) == kind).count() as f64 / f64::from(mix.total())
    }

    #[test]
    fn the_default_mix_reads_eight_times_for_two_writes() {
        assert!((share(&Mix::default(), Kind::PlaceOrder) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn weights_are_shares() {
        let mix: Mix = "place_order=1, product_page=3".parse().unwrap();
        assert!((share(&mix, Kind::PlaceOrder) - 0.25).abs() < 1e-9);
        assert!((share(&mix, Kind::ProductPage) - 0.75).abs() < 1e-9);
        assert!(share(&"reads".parse().unwrap(), Kind::PlaceOrder).abs() < 1e-9);
        assert!((share(&"orders".parse().unwrap(), Kind::PlaceOrder) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_mix_is_refused_and_told_the_kinds() {
        for bad in ["", "place_order", "place_order=0", "place_order=x", "buy=1", "place_order=4294967295,read_order=1"]
        {
            let error = bad.parse::<Mix>().unwrap_err();
            assert!(error.to_string().contains("list_products"), "{bad}");
        }
    }
}
