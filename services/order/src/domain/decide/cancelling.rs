//! The user takes the order back.

use contracts::order::OrderStatus;

use super::{Decided, accept, cancel, keep, paying::charged_but_cancelled};
use crate::domain::Order;

pub(super) fn decide(order: &Order) -> Decided {
    use OrderStatus as S;
    let mut next = order.clone();
    match order.status {
        // Created, StockReserved → Cancelled
        S::Created | S::StockReserved => accept(cancel(next)),
        // PaymentInFlight, PaymentPending → the same, until it is known whether it was charged. The wish is state: the
        // answer to the fence may be lost, and the charge come out much later.
        S::PaymentInFlight | S::PaymentPending if !order.cancel_requested => {
            next.cancel_requested = true;
            accept(keep(next, None))
        }
        // Confirmed → Cancelled, with what is left of the charge to be paid back
        S::Confirmed => accept(charged_but_cancelled(next)),
        S::PaymentInFlight | S::PaymentPending | S::Rejected | S::Cancelled => None,
    }
}
