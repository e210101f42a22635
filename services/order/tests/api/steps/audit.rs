//! Where the money and the goods of one client's orders have to be once everything is quiet.

use contracts::{coupon::RedemptionState, inventory::ReservationState, order::OrderStatus};
use order::domain::Order;

use super::siblings::{Books, DISCOUNT};

pub fn check(books: &Books, orders: &[Order], what: &str) {
    for order in orders {
        check_money(books, order, what);
        let confirmed = order.status == OrderStatus::Confirmed;
        let stock = books.stock.get(&order.id).copied();
        assert_eq!(stock == Some(ReservationState::Committed), confirmed, "{what}: stock is {stock:?}, {order:#?}");
        assert_ne!(stock, Some(ReservationState::Held), "{what}: stock is held for ever, {order:#?}");
        let coupon = books.coupons.get(&order.id).copied();
        assert_ne!(coupon, Some(RedemptionState::Held), "{what}: a coupon is held for ever, {order:#?}");
        let redeemed = coupon == Some(RedemptionState::Committed);
        let discounted = order.price.discount_minor + order.payment.refunded_minor > 0;
        let due = confirmed && order.coupon.code.is_some() && discounted;
        assert_eq!(redeemed, due, "{what}: the coupon is {coupon:?}, {order:#?}");
    }
    // Traces 5, 6 and 7: one key, one charge, however many orders it took.
    let charged = books.attempts.values().filter(|attempt| attempt.charged_minor > 0).count();
    assert!(charged <= 1, "{what}: one key was charged {charged} times");
    let confirmed = orders.iter().filter(|order| order.status == OrderStatus::Confirmed).count();
    assert!(confirmed <= 1, "{what}: one key was confirmed {confirmed} times");
}

fn check_money(books: &Books, order: &Order, what: &str) {
    let attempts = books.attempts.iter().filter(|(id, _)| order.payment.attempt_id == Some(**id));
    let charged: i64 = attempts.map(|(_, attempt)| attempt.charged_minor).sum();
    let returned: i64 = books.refunds.values().filter(|(of, _)| *of == order.id).map(|(_, amount)| amount).sum();
    assert_eq!(order.payment.refunded_minor, returned, "{what}: {order:#?}");
    if order.status == OrderStatus::Confirmed {
        assert_eq!(charged, order.price.total_minor, "{what}: {order:#?}");
        assert!(returned == 0 || returned == DISCOUNT, "{what}: {returned} went back, {order:#?}");
    } else {
        assert_eq!(charged, returned, "{what}: a dead order keeps money, {order:#?}");
    }
}
