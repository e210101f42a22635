//! What belongs to no instance alone. What several instances read from one database is said by each of them, and is taken
//! once; what each counts for itself is added up.

use std::collections::BTreeMap;

use contracts::order::OrderStatus;
use rules::FEATURES;

use super::{
    Feature, Lag, Outbox, Pending, Refused, Stage,
    look::{View, rounded, whole},
};

fn of<'a>(views: &'a [View<'a>], service: &str) -> impl Iterator<Item = View<'a>> {
    views.iter().filter(move |view| view.service == service).copied()
}

/// The largest that any instance says, since they all look at one thing.
fn greatest(views: &[View<'_>], service: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let all = |found: super::super::exposition::Labels<'_>| labels.iter().all(|(name, value)| found.is(name, value));
    of(views, service).filter_map(|view| view.gauge(name, all)).reduce(f64::max)
}

pub fn funnel(views: &[View<'_>]) -> Vec<Stage> {
    let stage = |status: OrderStatus| {
        let name = status.as_str();
        let total = if status.is_final() {
            of(views, "order").filter_map(|view| view.gauge("orders_total", |labels| labels.is("status", name))).sum()
        } else {
            greatest(views, "order", "orders_open", &[("status", name)]).unwrap_or_default()
        };
        let arrivals =
            of(views, "order").map(|view| view.rate("orders_entered_total", |labels| labels.is("status", name)));
        Stage { status: name.to_owned(), total: whole(total), rate: rounded(arrivals.sum()) }
    };
    OrderStatus::ALL.into_iter().map(stage).collect()
}

pub fn pending(views: &[View<'_>]) -> Pending {
    let count = greatest(views, "order", "payment_pending", &[]).map(whole).unwrap_or_default();
    let oldest = greatest(views, "order", "payment_pending_oldest_age_seconds", &[]);
    Pending { count, oldest_seconds: oldest.filter(|_| count > 0).map(rounded) }
}

pub fn reviews(views: &[View<'_>]) -> u64 {
    let payments = greatest(views, "payment", "payment_reviews", &[]);
    let refunds = greatest(views, "payment", "payment_refund_reviews", &[]);
    let discounts = greatest(views, "coupon", "compensation_backlog", &[("state", "manual")]);
    whole([payments, refunds, discounts].into_iter().flatten().sum())
}

pub fn compensations(views: &[View<'_>]) -> u64 {
    greatest(views, "coupon", "compensation_backlog", &[("state", "waiting")]).map(whole).unwrap_or_default()
}

/// By what names problems have: a limit of its own, and `breaker.payment` where a callee's guard refused.
pub fn refused(views: &[View<'_>]) -> Vec<Refused> {
    let mut rates: BTreeMap<String, f64> = BTreeMap::new();
    for view in views {
        for (mechanism, labels, rate) in view.rates_by("stability_rate_limited_total", "mechanism") {
            let name = match labels.get("downstream") {
                Some(callee) if mechanism == "outbound" => format!("rate_limit.{callee}"),
                _ => mechanism.to_owned(),
            };
            *rates.entry(name).or_default() += rate;
        }
        for (name, guard) in
            [("stability_breaker_rejected_total", "breaker"), ("stability_bulkhead_rejected_total", "bulkhead")]
        {
            for (callee, _, rate) in view.rates_by(name, "downstream") {
                *rates.entry(format!("{guard}.{callee}")).or_default() += rate;
            }
        }
    }
    let mut refused: Vec<_> =
        rates.into_iter().map(|(mechanism, rate)| Refused { mechanism, rate: rounded(rate) }).collect();
    refused.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    refused
}

/// The level that is furthest from normal, where instances go by different rules.
pub fn degraded(views: &[View<'_>]) -> Vec<Feature> {
    let feature = |feature: &resilience::degrade::Feature| {
        let said = views.iter().filter_map(|view| {
            let levels = view.now()?.state.pointer("/guards/degrade")?;
            let level = levels.get(feature.name)?.as_str()?;
            feature.levels.iter().position(|known| *known == level)
        });
        let furthest = said.max().unwrap_or_default();
        let hits = views
            .iter()
            .map(|view| view.rate("stability_degrade_hit_total", |labels| labels.is("feature", feature.name)));
        Feature {
            feature: feature.name.to_owned(),
            level: feature.levels.get(furthest).copied().unwrap_or_default().to_owned(),
            normal: furthest == 0,
            hit_rate: rounded(hits.sum()),
        }
    };
    FEATURES.iter().map(feature).collect()
}

/// The instance whose relay leads says how much waits, and the others say that nothing does.
pub fn outbox(views: &[View<'_>]) -> Vec<Outbox> {
    let mut found: BTreeMap<&str, Outbox> = BTreeMap::new();
    for view in views {
        let Some(backlog) = view.count("outbox_backlog", |_| true) else { continue };
        let oldest = view.gauge("outbox_oldest_age_seconds", |_| true).map(rounded).unwrap_or_default();
        let empty = || Outbox { service: view.service.to_owned(), backlog: 0, oldest_seconds: 0.0 };
        let entry = found.entry(view.service).or_insert_with(empty);
        entry.backlog = entry.backlog.max(backlog);
        entry.oldest_seconds = entry.oldest_seconds.max(oldest);
    }
    found.into_values().collect()
}

/// Each instance says it of the partitions that are its own.
pub fn lag(views: &[View<'_>]) -> Vec<Lag> {
    let mut found: BTreeMap<(String, String), f64> = BTreeMap::new();
    for view in views {
        let Some(look) = view.now() else { continue };
        for (labels, lag) in look.samples.of("kafka_consumer_lag") {
            let (Some(topic), Some(group)) = (labels.get("topic"), labels.get("group")) else { continue };
            *found.entry((topic.to_owned(), group.to_owned())).or_default() += lag;
        }
    }
    found.into_iter().map(|((topic, consumer), lag)| Lag { topic, consumer, lag: whole(lag) }).collect()
}
