//! What recommendation's own metrics mean.

use metrics::{counter, describe_counter};

/// Describes them, and shows at zero what has not happened yet: of a series that begins with a one, a rate would not
/// see it.
pub fn describe() {
    ::events::describe_metrics();
    describe_counter!("recommendations_total", "Answers by where the recommendations came from.");
    for source in ["live", "cache", "default"] {
        counter!("recommendations_total", "source" => source).increment(0);
    }
}
