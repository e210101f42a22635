//! What the metrics of this crate mean: a scrape says it with each name.

use metrics::{Unit, describe_counter, describe_gauge};

/// To be called once the recorder stands; again does no harm.
pub fn describe_metrics() {
    describe_gauge!(
        "outbox_backlog",
        "Events that wait in the outbox; shown by the instance whose relay leads, 0 at the others."
    );
    describe_gauge!(
        "outbox_oldest_age_seconds",
        Unit::Seconds,
        "Seconds that the oldest event in the outbox has waited; shown by the instance whose relay leads."
    );
    describe_counter!("outbox_delivery_failures_total", "Deliveries to Kafka that failed; they are made again.");
    describe_counter!("outbox_broker_unreachable_total", "Rounds of the relay in which Kafka did not answer.");
    describe_counter!("outbox_producer_fatal_total", "Producers that became unusable and were replaced.");
    describe_counter!(
        "outbox_published_again_total",
        "Retained events that were published again, since the broker was another one than before."
    );
    describe_gauge!("kafka_consumer_lag", "Messages that have not taken effect yet, by consumer group and topic.");
    describe_counter!("consumer_events_total", "Events that a consumer is done with, by group and outcome.");
    describe_counter!(
        "consumer_failures_total",
        "Tries at an event that had no effect, by whether they are made again (`transient`) or end in a dead letter."
    );
    describe_counter!(
        "consumer_missed_messages_total",
        "Messages that the broker dropped before this consumer had read them."
    );
    describe_counter!("dead_letters_total", "Messages that were put on a dead-letter topic, by reason.");
}
