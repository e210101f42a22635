//! Ids as types of their own, so that an order id is never passed where an attempt id belongs.
//!
//! All of them are UUIDv7: they sort by creation time, which keeps B-tree inserts at the right edge.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A fresh UUIDv7.
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// For values that come from outside: a path, a row, a token.
            #[must_use]
            pub const fn from_uuid(id: Uuid) -> Self {
                Self(id)
            }

            #[must_use]
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id!(
    /// An order. Fixed by the idempotency claim, before the order exists.
    OrderId
);
id!(
    /// One attempt to pay for an order; also the provider's idempotency key.
    AttemptId
);
id!(
    /// The subject of a user's token.
    UserId
);
id!(
    /// One event. Each hop into a retry tier gets an id of its own, else the inbox would swallow it.
    EventId
);
id!(
    /// One refund, derived from (order, purpose) so that asking twice names the same refund.
    RefundId
);

impl RefundId {
    /// The id of the refund of `order` for `purpose` (`"full"`, `"coupon"`, …); the same for the same input.
    #[must_use]
    pub fn derive(order: OrderId, purpose: &str) -> Self {
        Self(Uuid::new_v5(&order.as_uuid(), purpose.as_bytes()))
    }
}

impl EventId {
    /// What a consumer remembers instead of an event's own id when it counts an order once, however often it is told of
    /// it (`"order.confirmed"`, …): events are told again under other ids.
    #[must_use]
    pub fn derive(order: OrderId, kind: &str) -> Self {
        Self(Uuid::new_v5(&order.as_uuid(), kind.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_text_and_json() {
        let id = OrderId::generate();
        assert_eq!(id.to_string().parse::<OrderId>().unwrap(), id);
        assert_eq!(serde_json::from_str::<OrderId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
    }

    #[test]
    fn a_refund_id_is_the_same_for_the_same_purpose_and_differs_for_another() {
        let order = OrderId::generate();
        assert_eq!(RefundId::derive(order, "full"), RefundId::derive(order, "full"));
        assert_ne!(RefundId::derive(order, "full"), RefundId::derive(order, "coupon"));
    }
}
