//! How much each tenant asks for, admitted or not.
//!
//! A tenant is a word in a token, and every word would be a time series for ever; so the first ones have a label each,
//! and all others share one.

use std::{
    collections::HashSet,
    sync::{PoisonError, RwLock},
};

/// As many as a person looks at. The others are few requests each, or somebody makes tenants up.
const LABELS: usize = 100;
const OTHERS: &str = "others";

#[derive(Debug, Default)]
pub(super) struct Tenants(RwLock<HashSet<String>>);

impl Tenants {
    pub fn count(&self, tenant: &str) {
        let label = if self.has_label(tenant) { tenant.to_owned() } else { OTHERS.to_owned() };
        metrics::counter!("http_requests_by_tenant_total", "tenant" => label).increment(1);
    }

    fn has_label(&self, tenant: &str) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(tenant) {
            return true;
        }
        let full = known.len() >= LABELS;
        drop(known);
        if full {
            return false;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Others may have come in between the two locks.
        let fits = known.contains(tenant) || known.len() < LABELS;
        if fits {
            known.insert(tenant.to_owned());
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_tenants_share_a_label_and_known_ones_keep_theirs() {
        let tenants = Tenants::default();
        assert!(tenants.has_label("tea-house"));
        let labelled = (0..10_000).filter(|n| tenants.has_label(&format!("made-up-{n}"))).count();
        assert_eq!(labelled, LABELS - 1);
        assert!(tenants.has_label("tea-house") && !tenants.has_label("late"));
    }
}
