//! From submission to the intent to charge: nothing can have been charged.

use contracts::{
    Problem, ProblemType,
    order::{OrderCouponState, OrderPaymentState, OrderStatus, StatusReason},
};

use super::{Decided, accept, keep, reject};
use crate::domain::{Event, KeyFate, Order, Price, Refusal};

pub(super) fn decide(order: &Order, event: &Event) -> Decided {
    use OrderStatus as S;
    let mut next = order.clone();
    match (order.status, event) {
        // Created → StockReserved
        (S::Created, Event::StockHeld { lines, currency }) => {
            // A sum that does not fit is an order that nobody can place; inventory's prices are far from it.
            let Ok(price) = Price::of(lines, *currency) else { return Some(Err(Refusal::Never)) };
            next.status = S::StockReserved;
            next.lines.clone_from(lines);
            next.price = price;
            accept(keep(next, None))
        }
        // Created → Rejected
        (S::Created, Event::StockRefused(problem)) => {
            let reason = match problem.kind {
                ProblemType::OutOfStock => StatusReason::OutOfStock,
                ProblemType::UnknownSku => StatusReason::UnknownSku,
                // Released before: the hold was fenced off, so this order can no longer succeed, and a new one may.
                _ => return accept(without_inventory(next, None)),
            };
            accept(reject(next, reason, (**problem).clone(), KeyFate::Complete))
        }
        // Created → Rejected
        (S::Created, Event::StockNotDispatched | Event::StockUnknown) => {
            accept(without_inventory(next, Some("inventory")))
        }
        // StockReserved → StockReserved, with the total fixed
        (S::StockReserved, Event::CouponHeld { discount_minor }) if order.coupon.is_open() => {
            // A discount that leaves nothing to pay breaks coupon's own promise.
            let Some(price) = order.price.discounted(*discount_minor) else { return Some(Err(Refusal::Never)) };
            next.price = price;
            next.coupon.state = OrderCouponState::Held;
            accept(keep(next, None))
        }
        // StockReserved → StockReserved, at full price
        (S::StockReserved, Event::CouponPending) if order.coupon.is_open() => {
            next.coupon.state = OrderCouponState::Pending;
            next.degraded.push("coupon".to_owned());
            accept(keep(next, None))
        }
        // StockReserved → Rejected
        (S::StockReserved, Event::CouponRefused(problem)) if order.coupon.is_open() => {
            next.coupon.state = OrderCouponState::Rejected;
            accept(reject(next, StatusReason::CouponRefused, (**problem).clone(), KeyFate::Complete))
        }
        // StockReserved → PaymentInFlight
        (S::StockReserved, Event::ChargeIntended(attempt)) if !order.coupon.is_open() => {
            next.status = S::PaymentInFlight;
            next.payment.attempt_id = Some(*attempt);
            next.payment.state = OrderPaymentState::InFlight;
            accept(keep(next, Some(attempt.to_string())))
        }
        // Created, StockReserved → Rejected
        (S::Created | S::StockReserved, Event::Expired) => {
            let problem = Problem::new(ProblemType::DeadlineExceeded, "the order could not be placed in time")
                .with_mechanism("deadline");
            accept(reject(next, StatusReason::Expired, problem, KeyFate::Release))
        }
        _ => None,
    }
}

fn without_inventory(order: Order, mechanism: Option<&str>) -> crate::domain::Transition {
    let kind = ProblemType::InventoryUnavailable;
    let problem = Problem { mechanism: mechanism.map(str::to_owned), ..Problem::new(kind, kind.title()) };
    reject(order, StatusReason::InventoryUnavailable, problem, KeyFate::Release)
}
