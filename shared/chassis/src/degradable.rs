//! A feature that can be served with less: at which level one request begins, and the count of what was served below
//! the first.
//!
//! The pattern is [`resilience::degrade`]; here it meets the rules in force, what composite rules say about a request
//! ([`crate::degradation`]), and the metrics. Levels are read at each look rather than told by a listener, so that no
//! request which begins after a change still sees the level before it.

use std::sync::Arc;

use resilience::degrade::{Chain, Exhausted, Feature, Served, Switch, SwitchSnapshot};
use rules::RulesHandle;

use crate::{Degradation, Lifecycle, RequestContext};

/// A feature of this service that can be served with less. Clones share the switch.
#[derive(Clone)]
pub struct Degradable(Arc<Inside>);

struct Inside {
    switch: Switch,
    rules: RulesHandle,
    degradation: Degradation,
}

impl Degradable {
    #[must_use]
    pub fn live(feature: Feature, rules: &RulesHandle, lifecycle: &Lifecycle) -> Self {
        let degradation = Degradation::new(rules, lifecycle);
        // Shown at zero before the first answer with less, so that a rate sees that one too.
        let name = feature.name;
        lifecycle.measured_by(move || hits(name).increment(0));
        Self(Arc::new(Inside { switch: Switch::new(feature), rules: rules.clone(), degradation }))
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.switch.feature().name
    }

    /// The level at which to begin for this request.
    #[must_use]
    pub fn level(&self, context: &RequestContext) -> &'static str {
        // A feature that the rules do not know is as it always is.
        self.0.degradation.level(context, self.name()).unwrap_or_else(|| self.0.switch.level())
    }

    /// Tries the levels from [`Self::level`] down; to be ended by [`Self::finish`].
    pub fn begin<T, E>(&self, context: &RequestContext) -> Chain<'_, T, E> {
        self.0.switch.begin_at(self.level(context))
    }

    /// The end of a chain, counted if it served less than normal.
    pub fn finish<T, E>(&self, chain: Chain<'_, T, E>) -> Result<Served<T>, Exhausted<E>> {
        chain.finish().inspect(counted)
    }

    /// For a feature whose levels are ways of working: what was done at `level`, counted if that is less than normal.
    pub fn serve<T>(&self, value: T, level: &'static str) -> Served<T> {
        let served = self.0.switch.serve(value, level);
        counted(&served);
        served
    }

    /// With the level that the rules say for everybody.
    #[must_use]
    pub fn snapshot(&self) -> SwitchSnapshot {
        let levels = self.0.rules.current().degrade.levels();
        let level = levels.into_iter().find_map(|(name, level)| (name == self.name()).then_some(level));
        SwitchSnapshot { level: level.unwrap_or_else(|| self.0.switch.level()), ..self.0.switch.snapshot() }
    }
}

fn counted<T>(served: &Served<T>) {
    if let Some(feature) = served.degraded {
        hits(feature).increment(1);
    }
}

fn hits(feature: &'static str) -> metrics::Counter {
    metrics::counter!("stability_degrade_hit_total", "feature" => feature)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rules::{CouponLevel, Degrade, Origin, Rules};

    use super::*;

    #[tokio::test]
    async fn the_level_is_that_of_the_rules_in_force() {
        let rules = RulesHandle::new(Rules::default(), Origin::Default);
        let lifecycle = Lifecycle::new(tokio::runtime::Handle::current());
        let coupon = Degradable::live(Degrade::COUPON, &rules, &lifecycle);
        let context = RequestContext::for_job("test", None, Duration::from_secs(1));
        assert_eq!((coupon.name(), coupon.level(&context)), ("coupon", "on"));
        rules.apply(
            Rules { degrade: Degrade { coupon: CouponLevel::Pending, ..Degrade::default() }, ..Rules::default() },
            Origin::File,
        );
        assert_eq!(coupon.level(&context), "pending");
        let chain = coupon.begin::<u8, u8>(&context).or("on", || async { panic!("it was called") }).await;
        let served = coupon.finish(chain.or("pending", || async { Ok(1) }).await).unwrap();
        assert_eq!((served.value, served.degraded), (1, Some("coupon")));
        assert_eq!((coupon.snapshot().level, coupon.snapshot().degraded_total), ("pending", 1));
        rules.apply(Rules::default(), Origin::File);
        assert_eq!(coupon.level(&context), "on");
    }
}
