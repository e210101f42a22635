//! What order's own metrics mean.

use contracts::order::{OrderStatus, StatusReason};
use metrics::{Unit, counter, describe_counter, describe_gauge};

/// How orders end, beside being confirmed.
const ENDINGS: [(OrderStatus, StatusReason); 9] = [
    (OrderStatus::Rejected, StatusReason::OutOfStock),
    (OrderStatus::Rejected, StatusReason::UnknownSku),
    (OrderStatus::Rejected, StatusReason::CouponRefused),
    (OrderStatus::Rejected, StatusReason::InventoryUnavailable),
    (OrderStatus::Rejected, StatusReason::PaymentDeclined),
    (OrderStatus::Rejected, StatusReason::PaymentUnavailable),
    (OrderStatus::Rejected, StatusReason::PaymentNotFound),
    (OrderStatus::Rejected, StatusReason::Expired),
    (OrderStatus::Cancelled, StatusReason::UserCancelled),
];

/// Describes them, and shows at zero what has not happened yet: of a series that begins with a one, a rate would not
/// see it.
pub fn describe() {
    ::events::describe_metrics();
    describe_counter!("orders_total", "Orders that reached a final status, by status and reason.");
    counter!("orders_total", "status" => OrderStatus::Confirmed.as_str(), "reason" => "none").increment(0);
    for (status, reason) in ENDINGS {
        counter!("orders_total", "status" => status.as_str(), "reason" => reason.as_str()).increment(0);
    }
    describe_counter!("orders_entered_total", "Orders that came to a status, by status.");
    for status in OrderStatus::ALL {
        counter!("orders_entered_total", "status" => status.as_str()).increment(0);
    }
    describe_gauge!("orders_open", "Orders that stand in a status which is not final, by status.");
    describe_counter!("orders_recovered_total", "Orders that stood still and were taken up again by the recoverer.");
    counter!("orders_recovered_total").increment(0);
    describe_counter!(
        "orders_told_again_total",
        "Effects of final orders that were told again, since they had not been seen to take place, by effect."
    );
    describe_gauge!("payment_pending", "Orders whose payment is not decided.");
    describe_gauge!(
        "payment_pending_oldest_age_seconds",
        Unit::Seconds,
        "Seconds since the oldest order was placed whose payment is not decided; 0 when there is none."
    );
    describe_gauge!("refunds_due", "Orders of which money has to go back.");
    describe_gauge!("refunds_due_oldest_age_seconds", Unit::Seconds, "Seconds that the oldest due refund has waited.");
    describe_gauge!("orders_unacknowledged", "Final orders whose effects on stock and coupon have not all been seen.");
    describe_gauge!(
        "orders_unacknowledged_oldest_age_seconds",
        Unit::Seconds,
        "Seconds that the oldest of the unacknowledged orders has been final."
    );
    describe_gauge!("compensation_backlog", "Confirmed orders whose coupon is still to be settled, by state.");
}
