//! What coupon's own metrics mean.

use metrics::describe_gauge;

pub fn describe() {
    ::events::describe_metrics();
    describe_gauge!(
        "compensation_backlog",
        "Discounts that were promised and are not settled, by whether they are tried again (`waiting`) or wait for a \
         person (`manual`)."
    );
}
