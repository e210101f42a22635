//! A page of orders, newest first: its cursor is the id of the last one on it.

use contracts::{OrderId, order::Page};

use crate::{domain::Order, error::Error};

/// Where a page begins.
pub fn before(cursor: Option<String>) -> Result<Option<OrderId>, Error> {
    cursor.map(|text| text.parse().map_err(|_| Error::BadParameter("cursor", "is none of ours"))).transpose()
}

/// Of orders one more than `limit` was read, to know whether there is a next page.
pub fn page<T>(mut orders: Vec<Order>, limit: i64, shown: impl Fn(Order) -> T) -> Page<T> {
    let more = i64::try_from(orders.len()).is_ok_and(|read| read > limit);
    if more {
        orders.pop();
    }
    let next_cursor = orders.last().filter(|_| more).map(|last| last.id.to_string());
    Page { items: orders.into_iter().map(shown).collect(), next_cursor }
}
