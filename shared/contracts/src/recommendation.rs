//! The internal recommendation API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where an answer comes from, from best to last resort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Live,
    Cache,
    Default,
}

/// `GET /v1/recommendations`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recommendations {
    pub source: Source,
    pub items: Vec<Recommended>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recommended {
    pub sku: String,
    pub name: String,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
}

/// What is recommended when nothing is known: things that most people can use, best first. Scores count down, since the
/// order is all that there is to say.
///
/// In code, because it must be there when nothing else is, and here, because two fall back to it: recommendation when
/// it knows nothing, and order when recommendation does not answer. The products are those of the shop that
/// development is seeded with; a shop of one's own replaces them.
#[must_use]
pub fn default_list() -> Vec<Recommended> {
    let recommended = |(place, (sku, name)): (usize, &(&str, &str))| Recommended {
        sku: (*sku).to_owned(),
        name: (*name).to_owned(),
        score: (PRODUCTS.len() - place) as f64,
    };
    PRODUCTS.iter().enumerate().map(recommended).collect()
}

const PRODUCTS: [(&str, &str); 12] = [
    ("TEA-EARLGREY-100", "Earl Grey with Bergamot Oil 100 g"),
    ("COFFEE-HOUSE-GROUND-250", "House Blend Filter Ground 250 g"),
    ("TEA-SAMPLER-12", "Tea Sampler with 12 Varieties"),
    ("BREW-FRENCHPRESS-350", "French Press 350 ml"),
    ("CUP-TRAVEL-350", "Insulated Travel Cup 350 ml"),
    ("PANTRY-HONEY-ACACIA-500", "Acacia Honey 500 g"),
    ("TEA-PEPPERMINT-50", "Peppermint Leaves 50 g"),
    ("BREW-INFUSER-BALL", "Stainless Tea Infuser Ball"),
    ("KITCHEN-APRON", "Canvas Apron"),
    ("STATIONERY-NOTEBOOK-A5-RULED", "Ruled Notebook A5"),
    ("GARDEN-SEED-SUNFLOWER", "Giant Sunflower Seeds"),
    ("HOME-CUSHION-LINEN", "Linen Cushion Cover 50 cm"),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_list_has_distinct_products_with_falling_positive_scores() {
        let list = default_list();
        let skus: HashSet<_> = list.iter().map(|item| &item.sku).collect();
        assert_eq!(skus.len(), list.len());
        assert!(list.windows(2).all(|pair| pair[0].score > pair[1].score));
        assert!(list.iter().all(|item| item.score > 0.0));
    }
}
