//! What inventory's own metrics mean.

use metrics::{Unit, describe_gauge};

pub fn describe() {
    ::events::describe_metrics();
    describe_gauge!(
        "inventory_oldest_hold_age_seconds",
        Unit::Seconds,
        "Seconds that the oldest hold on stock has stood; 0 when there is none."
    );
}
