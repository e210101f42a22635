//! From what is known of products to what is recommended.

use std::collections::HashSet;

use contracts::recommendation::Recommended;

/// All candidates for `sku`, best first: what was bought together with it, then what sells anyway. Both lists come
/// ranked. The latter's scores are scaled to stay below the former's, which count orders and so are at least 1.
#[must_use]
pub fn blend(sku: Option<&str>, together: Vec<Recommended>, trending: Vec<Recommended>) -> Vec<Recommended> {
    let top = trending.first().map_or(0.0, |best| best.score);
    let scale = if together.is_empty() { 1.0 } else { 1.0 / (1.0 + top) };
    let filler = trending.into_iter().map(|item| Recommended { score: item.score * scale, ..item });
    let mut seen: HashSet<String> = sku.map(str::to_owned).into_iter().collect();
    together.into_iter().chain(filler).filter(|item| seen.insert(item.sku.clone())).collect()
}

/// The first `limit` candidates that are neither `sku` itself nor among the `owned`.
#[must_use]
pub fn pick(
    candidates: Vec<Recommended>,
    sku: Option<&str>,
    owned: &HashSet<String>,
    limit: usize,
) -> Vec<Recommended> {
    let wanted = |item: &Recommended| Some(item.sku.as_str()) != sku && !owned.contains(&item.sku);
    candidates.into_iter().filter(wanted).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Distinct products with falling scores, as the database gives them.
    fn ranked(lowest: f64) -> impl Strategy<Value = Vec<Recommended>> {
        vec((0u8..20, lowest..1000.0), 0..15).prop_map(|entries| {
            let mut seen = HashSet::new();
            let mut items: Vec<_> = entries
                .into_iter()
                .filter(|(sku, _)| seen.insert(*sku))
                .map(|(sku, score)| Recommended { sku: format!("P{sku}"), name: "A product".into(), score })
                .collect();
            items.sort_by(|a, b| b.score.total_cmp(&a.score));
            items
        })
    }

    proptest! {
        #[test]
        fn candidates_are_distinct_never_the_product_itself_and_fall_in_score(
            together in ranked(1.0), trending in ranked(0.0), asked in 0u8..20,
        ) {
            let sku = format!("P{asked}");
            let together: Vec<_> = together.into_iter().filter(|item| item.sku != sku).collect();
            let blended = blend(Some(&sku), together.clone(), trending.clone());
            prop_assert!(blended.iter().all(|item| item.sku != sku));
            let distinct: HashSet<_> = blended.iter().map(|item| &item.sku).collect();
            prop_assert_eq!(distinct.len(), blended.len());
            prop_assert!(blended.windows(2).all(|pair| pair[0].score >= pair[1].score));
            prop_assert_eq!(&blended[..together.len()], &together[..]);
            for item in trending.iter().filter(|item| item.sku != sku) {
                prop_assert!(distinct.contains(&item.sku));
            }
        }

        #[test]
        fn a_pick_keeps_the_order_and_leaves_out_what_is_owned(
            candidates in ranked(0.0), owned in proptest::collection::hash_set("P1?[0-9]", 0..5), limit in 1usize..50,
        ) {
            let picked = pick(candidates.clone(), None, &owned, limit);
            let expected: Vec<_> = candidates.into_iter().filter(|item| !owned.contains(&item.sku)).collect();
            prop_assert_eq!(picked.len(), expected.len().min(limit));
            prop_assert_eq!(&picked[..], &expected[..picked.len()]);
        }
    }
}
