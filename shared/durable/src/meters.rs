//! What the metrics of this crate mean: a scrape says it with each name.

use metrics::describe_gauge;

/// To be called once the recorder stands; again does no harm.
pub fn describe_metrics() {
    describe_gauge!("db_pool_connections", "Open connections to the service's database, by whether they are in use.");
    describe_gauge!("db_pool_connections_max", "Connections that the pool may open, by the rules of the start.");
}
