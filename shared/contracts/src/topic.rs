//! Kafka topics. The key of every message is its order id, so that one order's events stay in order.

/// A topic, with the partitions that it is created with. Many partitions, since the embedded broker bounds each one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    pub name: &'static str,
    pub partitions: i32,
}

impl Topic {
    /// Where messages of this topic go that no consumer can use.
    #[must_use]
    pub fn dead_letters(&self) -> String {
        format!("{}{DEAD_LETTER_SUFFIX}", self.name)
    }
}

/// Appended to a topic's name to get its dead-letter topic.
pub const DEAD_LETTER_SUFFIX: &str = ".dlq";

/// `order.*`, `payment.unknown`, `payment.deferred`, `payment.refund_requested`, `coupon.compensate`: said by order.
pub const ORDERS: Topic = Topic { name: "orders", partitions: 24 };
/// `payment.approved`, `.declined`, `.fenced`, `.refunded`, `.review`: said by payment.
pub const PAYMENTS: Topic = Topic { name: "payments", partitions: 24 };

/// Every topic with its dead-letter topic, for whoever creates them.
#[must_use]
pub fn all() -> Vec<(String, i32)> {
    [ORDERS, PAYMENTS].iter().flat_map(|t| [(t.name.to_owned(), t.partitions), (t.dead_letters(), 1)]).collect()
}
