//! Degradation in a running service: a feature's switch that follows the rules, and the count of what was served with
//! less.
//!
//! The pattern is [`resilience::degrade`]; here it meets the rules in force and the metrics. The operator's level is
//! read at each look rather than told by a listener, so that no request which begins after a change still sees the
//! level before it.

use std::{sync::Arc, time::Duration};

use resilience::degrade::{Chain, Exhausted, Feature, Served, Switch, SwitchSnapshot, UnknownLevel};
use rules::RulesHandle;

/// A feature of this service that can be served with less. Clones share the switch.
#[derive(Debug, Clone)]
pub struct Degradable(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    switch: Switch,
    rules: RulesHandle,
}

impl Degradable {
    #[must_use]
    pub fn live(feature: Feature, rules: &RulesHandle) -> Self {
        Self(Arc::new(Inside { switch: Switch::new(feature), rules: rules.clone() }))
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.switch.feature().name
    }

    /// The level at which to begin now.
    #[must_use]
    pub fn level(&self) -> &'static str {
        self.switch().level()
    }

    /// Tries the levels from [`Self::level`] down; to be ended by [`Self::finish`].
    pub fn begin<T, E>(&self) -> Chain<'_, T, E> {
        self.switch().begin()
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

    /// At `level` or below for `time`, whatever the rules say.
    pub fn ease(&self, level: &str, time: Duration) -> Result<(), UnknownLevel> {
        self.0.switch.ease(level, time)
    }

    #[must_use]
    pub fn snapshot(&self) -> SwitchSnapshot {
        self.switch().snapshot()
    }

    fn switch(&self) -> &Switch {
        let Inside { switch, rules } = &*self.0;
        // A feature that the rules do not know stays as it is.
        if let Some(level) = rules.current().degrade.level(self.name())
            && let Err(error) = switch.set(level)
        {
            tracing::error!(%error, "the rules and the table of features disagree");
        }
        switch
    }
}

fn counted<T>(served: &Served<T>) {
    if let Some(feature) = served.degraded {
        metrics::counter!("stability_degrade_hit_total", "feature" => feature).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use rules::{CouponLevel, Degrade, Origin, Rules};

    use super::*;

    #[tokio::test]
    async fn the_level_is_that_of_the_rules_in_force() {
        let rules = RulesHandle::new(Rules::default(), Origin::Default);
        let coupon = Degradable::live(Degrade::COUPON, &rules);
        assert_eq!((coupon.name(), coupon.level()), ("coupon", "on"));
        rules.apply(
            Rules { degrade: Degrade { coupon: CouponLevel::Pending, ..Degrade::default() }, ..Rules::default() },
            Origin::File,
        );
        assert_eq!(coupon.level(), "pending");
        let chain = coupon.begin::<u8, u8>().or("on", || async { panic!("it was called") }).await;
        let served = coupon.finish(chain.or("pending", || async { Ok(1) }).await).unwrap();
        assert_eq!((served.value, served.degraded), (1, Some("coupon")));
        rules.apply(Rules::default(), Origin::File);
        coupon.ease("off", Duration::from_secs(30)).unwrap();
        let shown = coupon.snapshot();
        assert_eq!((shown.level, shown.set, shown.degraded_total), ("off", "on", 1));
    }
}
