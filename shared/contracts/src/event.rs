//! Events in the CloudEvents 1.0 JSON format, and what each type carries.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    AttemptId, Currency, EventId, OrderId, RefundId, Service, UserId,
    order::{OrderItem, StatusReason},
    payment::Channel,
    topic::{COMPENSATE, COUPONS, ORDERS, PAYMENTS, RECONCILE, Topic},
};

/// An envelope. Consumers match on `kind`, skip the types that they do not know, and decode `data` of the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub specversion: SpecVersion,
    pub id: EventId,
    pub source: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// The order that it is about; also the Kafka key.
    pub subject: OrderId,
    pub time: DateTime<Utc>,
    pub datacontenttype: String,
    /// The trace of the request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Raised per event of one subject and source. Gates projections such as caches, never commands.
    pub version: i64,
    /// An extension of ours: before this moment, a consumer leaves the event alone. It holds up its partition, so only
    /// the retry tiers of a queue carry it, where everything waits equally long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notbefore: Option<DateTime<Utc>>,
    pub data: Value,
}

/// Reads and writes as `"1.0"`; anything else is not an event of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpecVersion {
    #[serde(rename = "1.0")]
    V1,
}

/// What one type of event carries.
pub trait EventData: Serialize + DeserializeOwned {
    const TYPE: &'static str;
    const TOPIC: Topic;
    const SOURCE: Service;

    /// The order that the event is about.
    fn subject(&self) -> OrderId;
}

impl Event {
    /// Wraps `data` in an envelope with a fresh id.
    pub fn new<D: EventData>(
        data: &D,
        version: i64,
        traceparent: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            specversion: SpecVersion::V1,
            id: EventId::generate(),
            source: D::SOURCE.as_str().to_owned(),
            kind: D::TYPE.to_owned(),
            subject: data.subject(),
            time: now,
            datacontenttype: "application/json".to_owned(),
            traceparent,
            version,
            notbefore: None,
            data: serde_json::to_value(data)?,
        })
    }

    /// The payload, if this event is a `D`; an error if it says so and is not.
    pub fn decode<D: EventData>(&self) -> Option<Result<D, serde_json::Error>> {
        (self.kind == D::TYPE).then(|| D::deserialize(&self.data))
    }

    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id.as_uuid()
    }
}

macro_rules! event_data {
    ($name:ident, $kind:literal, $topic:expr, $source:expr) => {
        impl EventData for $name {
            const TYPE: &'static str = $kind;
            const TOPIC: Topic = $topic;
            const SOURCE: Service = $source;

            fn subject(&self) -> OrderId {
                self.order_id
            }
        }
    };
}

/// The order is paid and will be fulfilled: stock and coupon are committed on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderConfirmed {
    pub order_id: OrderId,
    pub user_id: UserId,
    pub items: Vec<OrderItem>,
    pub currency: Currency,
    pub total_minor: i64,
    pub coupon_code: Option<String>,
}
event_data!(OrderConfirmed, "order.confirmed", ORDERS, Service::Order);

/// The order is dead: whatever was held for it is let go, whether or not anybody remembers holding it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRejected {
    pub order_id: OrderId,
    pub reason: StatusReason,
}
event_data!(OrderRejected, "order.rejected", ORDERS, Service::Order);

/// The user took the order back; a committed reservation is returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderCancelled {
    pub order_id: OrderId,
    pub reason: StatusReason,
}
event_data!(OrderCancelled, "order.cancelled", ORDERS, Service::Order);

/// Order called payment and does not know what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentUnknown {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
}
event_data!(PaymentUnknown, "payment.unknown", ORDERS, Service::Order);

/// The charge certainly was not sent, and the order is small enough to wait: payment sends it when it can. It says what
/// to charge, since the request that would have said so may never have left order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentDeferred {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
    pub amount_minor: i64,
    pub currency: Currency,
    pub payment_method: String,
}
event_data!(PaymentDeferred, "payment.deferred", ORDERS, Service::Order);

/// Money has to go back. Said again with the same `refund_id` until it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentRefundRequested {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
    /// One an order and purpose, so that no purpose is paid out twice.
    pub refund_id: RefundId,
    pub amount_minor: i64,
    pub currency: Currency,
    /// For people: `cancelled`, `late_approval`, `coupon`.
    pub reason: String,
}
event_data!(PaymentRefundRequested, "payment.refund_requested", ORDERS, Service::Order);

/// The order was confirmed at full price while coupon did not answer: honour the code now if it can be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CouponCompensate {
    pub order_id: OrderId,
    pub user_id: UserId,
    pub code: String,
    pub subtotal_minor: i64,
    pub currency: Currency,
}
event_data!(CouponCompensate, "coupon.compensate", ORDERS, Service::Order);

/// What became of a coupon that was pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CouponSettled {
    pub order_id: OrderId,
    pub outcome: CouponOutcome,
}
event_data!(CouponSettled, "coupon.settled", COUPONS, Service::Coupon);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CouponOutcome {
    /// Redeemed for the order; this much is to be paid back.
    Honoured { discount_minor: i64 },
    /// Not to be had, also not at the last try; a person decides what the customer gets.
    Refused { reason: String },
}

/// Coupon's own note to try again later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompensationDue {
    pub order_id: OrderId,
    pub user_id: UserId,
    pub code: String,
    pub subtotal_minor: i64,
    pub currency: Currency,
}
event_data!(CompensationDue, "coupon.compensation_due", COMPENSATE[0], Service::Coupon);

/// The provider proved a charge.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaymentApproved {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
    pub channel: Channel,
    pub provider_ref: String,
    pub amount_minor: i64,
    pub currency: Currency,
}
event_data!(PaymentApproved, "payment.approved", PAYMENTS, Service::Payment);

/// The provider refused the charge, with a code of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaymentDeclined {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
    pub channel: Channel,
    pub decline_code: String,
}
event_data!(PaymentDeclined, "payment.declined", PAYMENTS, Service::Payment);

/// The attempt will never be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaymentFenced {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
}
event_data!(PaymentFenced, "payment.fenced", PAYMENTS, Service::Payment);

/// The provider proved a refund.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaymentRefunded {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
    pub refund_id: RefundId,
    pub amount_minor: i64,
    pub currency: Currency,
}
event_data!(PaymentRefunded, "payment.refunded", PAYMENTS, Service::Payment);

/// Nobody at the provider has said what became of the charge, for longer than anybody should wait. It is still asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaymentReview {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
}
event_data!(PaymentReview, "payment.review", PAYMENTS, Service::Payment);

/// Payment's own note to ask the provider about an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReconcileDue {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
}
event_data!(ReconcileDue, "payment.reconcile_due", RECONCILE[0], Service::Payment);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_cloudevent_and_decodes_to_what_it_carries() {
        let data = OrderRejected { order_id: OrderId::generate(), reason: StatusReason::OutOfStock };
        let event = Event::new(&data, 3, None, Utc::now()).unwrap();
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["specversion"], "1.0");
        assert_eq!(json["type"], "order.rejected");
        assert_eq!(json["source"], "order");
        assert_eq!(json["subject"], data.order_id.to_string());
        assert_eq!(json["data"]["reason"], "out_of_stock");

        let back: Event = serde_json::from_value(json).unwrap();
        assert_eq!(back.decode::<OrderRejected>().unwrap().unwrap(), data);
        assert!(back.decode::<OrderConfirmed>().is_none());
    }

    #[test]
    fn data_that_does_not_fit_its_type_is_an_error_and_not_another_event() {
        let data = OrderRejected { order_id: OrderId::generate(), reason: StatusReason::Expired };
        let mut event = Event::new(&data, 1, None, Utc::now()).unwrap();
        event.data = serde_json::json!({"order_id": 7});
        assert!(event.decode::<OrderRejected>().unwrap().is_err());
    }
}
