//! What the console's own metrics mean.

use metrics::{counter, describe_counter, describe_gauge};

/// Describes them, and shows at zero what has not happened yet.
pub fn describe() {
    describe_counter!("console_logins_total", "Tries to get into the console, by outcome.");
    for outcome in ["in", "refused", "limited"] {
        counter!("console_logins_total", "outcome" => outcome).increment(0);
    }
    describe_gauge!("console_listeners", "Streams of the live view that are open.");
    describe_counter!("console_listeners_dropped_total", "Streams that were ended, since their reader was too slow.");
    counter!("console_listeners_dropped_total").increment(0);
}
