//! Kafka topics. The key of every message is its order id, so that one order's events stay in order.

use std::collections::BTreeSet;

/// A topic, with the partitions that it is created with. Many partitions, since the embedded broker bounds each one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    pub name: &'static str,
    pub partitions: i32,
}

impl Topic {
    /// Where messages of this topic go that no consumer can use. A queue has one such topic for all its tiers.
    #[must_use]
    pub fn dead_letters(&self) -> String {
        dead_letters(self.name)
    }
}

/// The dead-letter topic of the topic with this name, prefixed or not.
#[must_use]
pub fn dead_letters(topic: &str) -> String {
    format!("{}{DEAD_LETTER_SUFFIX}", base(topic))
}

/// Appended to a topic's name to get its dead-letter topic.
pub const DEAD_LETTER_SUFFIX: &str = ".dlq";

/// `order.*`, `payment.unknown`, `payment.deferred`, `payment.refund_requested`, `coupon.compensate`: said by order.
pub const ORDERS: Topic = Topic { name: "orders", partitions: 24 };
/// `payment.approved`, `.declined`, `.fenced`, `.refunded`, `.review`: said by payment.
pub const PAYMENTS: Topic = Topic { name: "payments", partitions: 24 };
/// `coupon.settled`: said by coupon.
pub const COUPONS: Topic = Topic { name: "coupons", partitions: 24 };

/// How often a queue with delays tries again: its topic, then one topic a delay.
pub const RETRY_TIERS: usize = 4;

/// A queue with its retry tiers, nearest first. A message that has to wait goes into the next one.
pub type Queue = [Topic; 1 + RETRY_TIERS];

/// Payment's own work on attempts whose outcome is unknown.
pub const RECONCILE: Queue = queue([
    "payments.reconcile",
    "payments.reconcile.retry.1",
    "payments.reconcile.retry.2",
    "payments.reconcile.retry.3",
    "payments.reconcile.retry.4",
]);
/// Coupon's own work on discounts that were promised while it did not answer.
pub const COMPENSATE: Queue = queue([
    "coupons.compensate",
    "coupons.compensate.retry.1",
    "coupons.compensate.retry.2",
    "coupons.compensate.retry.3",
    "coupons.compensate.retry.4",
]);

const fn queue(names: [&'static str; 1 + RETRY_TIERS]) -> Queue {
    let mut topics = [Topic { name: "", partitions: 6 }; 1 + RETRY_TIERS];
    let mut tier = 0;
    while tier < names.len() {
        topics[tier].name = names[tier];
        tier += 1;
    }
    topics
}

/// The name of the queue that a tier belongs to; any other topic's own name.
fn base(name: &str) -> &str {
    name.split_once(".retry.").map_or(name, |(base, _)| base)
}

/// Every topic and every dead-letter topic, once, for whoever creates them.
#[must_use]
pub fn all() -> Vec<(String, i32)> {
    let topics = || [ORDERS, PAYMENTS, COUPONS].into_iter().chain(RECONCILE).chain(COMPENSATE);
    let letters: BTreeSet<String> = topics().map(|topic| topic.dead_letters()).collect();
    topics().map(|t| (t.name.to_owned(), t.partitions)).chain(letters.into_iter().map(|name| (name, 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_a_topic_for_each_delay_and_one_for_its_dead_letters() {
        let names: Vec<String> = all().into_iter().map(|(name, _)| name).collect();
        for tier in ["", ".retry.1", ".retry.4", ".dlq"] {
            assert_eq!(names.iter().filter(|name| **name == format!("payments.reconcile{tier}")).count(), 1, "{tier}");
        }
        assert_eq!(RECONCILE[3].dead_letters(), "payments.reconcile.dlq");
        assert_eq!(ORDERS.dead_letters(), "orders.dlq");
    }
}
