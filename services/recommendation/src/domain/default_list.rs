//! What is recommended when nothing is known: things that most people can use, best first.
//!
//! In code, because it must be there when nothing else is. The products are those of the shop that development is
//! seeded with; a shop of one's own replaces them.

use contracts::recommendation::Recommended;

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

/// The whole list. Scores count down, since the order is all that there is to say.
#[must_use]
pub fn default_list() -> Vec<Recommended> {
    let recommended = |(place, (sku, name)): (usize, &(&str, &str))| Recommended {
        sku: (*sku).to_owned(),
        name: (*name).to_owned(),
        score: (PRODUCTS.len() - place) as f64,
    };
    PRODUCTS.iter().enumerate().map(recommended).collect()
}

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
