//! What payment's own metrics mean.

use contracts::payment::AttemptState;
use metrics::{Unit, counter, describe_counter, describe_gauge};

/// What an attempt may come to.
const OUTCOMES: [AttemptState; 6] = [
    AttemptState::Approved,
    AttemptState::Declined,
    AttemptState::Unknown,
    AttemptState::NotDispatched,
    AttemptState::Fenced,
    AttemptState::Review,
];

/// Describes them, and shows at zero what has not happened yet: of a series that begins with a one, a rate would not
/// see it.
pub fn describe() {
    ::events::describe_metrics();
    attempts();
    backlog();
    describe_counter!("payment_refunds_total", "Steps of refunds, by the state that each led to.");
    describe_counter!("payment_webhooks_total", "Notices of the provider that were acted upon, by outcome.");
    describe_counter!("payment_swept_total", "Attempts that nobody was at any more and that were taken up again.");
    describe_counter!("payment_ledger_reads_total", "Readings of a channel's ledger, by outcome.");
    describe_counter!("payment_ledger_findings_total", "Charges in a ledger that nothing else had told of.");
    for name in ["payment_swept_total", "payment_ledger_findings_total"] {
        counter!(name).increment(0);
    }
    counter!("stability_degrade_hit_total", "feature" => rules::Degrade::PAYMENT.name).increment(0);
}

fn attempts() {
    describe_counter!("payment_attempts_total", "Steps of payment attempts, by the state that each led to.");
    for state in OUTCOMES {
        counter!("payment_attempts_total", "outcome" => state.as_str()).increment(0);
    }
    describe_counter!(
        "payment_records_lost_total",
        "Outcomes that could not be recorded when they were known; reconciliation finds them again."
    );
    describe_counter!("payment_amount_mismatches_total", "Charges of another amount than was asked for.");
    describe_counter!("payment_extra_charges_total", "Charges that settle nothing and go back.");
    for name in ["payment_records_lost_total", "payment_amount_mismatches_total", "payment_extra_charges_total"] {
        counter!(name).increment(0);
    }
}

fn backlog() {
    describe_gauge!("payment_pending", "Attempts of which it is not known whether they were charged.");
    describe_gauge!(
        "payment_pending_oldest_age_seconds",
        Unit::Seconds,
        "Seconds that the oldest attempt has been undecided; 0 when there is none."
    );
    describe_gauge!("payment_reviews", "Attempts that wait for a person.");
    describe_gauge!("payment_deferred", "Attempts that wait to be sent, since the provider was away.");
    describe_gauge!("payment_refunds_open", "Refunds that the provider has not acknowledged.");
    describe_gauge!(
        "payment_refunds_oldest_age_seconds",
        Unit::Seconds,
        "Seconds that the oldest open refund has waited; 0 when there is none."
    );
    describe_gauge!("payment_refund_reviews", "Refunds that wait for a person.");
    describe_gauge!("payment_webhooks_waiting", "Stored notices of the provider that have not been acted upon.");
}
