//! One refund: a record that is sent with the same key until the provider says that it was made.
//!
//! Unlike a charge, sending it twice does no harm, since the provider knows its key; and unlike a charge it must not be
//! given up, since somebody is owed. So there is no unknown here: what got no answer is sent again.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, Currency, OrderId, RefundId,
    event::PaymentRefunded,
    payment::{Channel, RefundState},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Refund {
    /// Also the provider's idempotency key.
    pub id: RefundId,
    /// The charge that it is taken from.
    pub channel: Channel,
    pub provider_ref: String,
    pub amount_minor: i64,
    pub currency: Currency,
    /// For people.
    pub reason: String,
    /// Who asked for it; `None`: we did, of a charge that was one too many.
    pub asked_by: Option<Asker>,
    pub state: RefundState,
    /// How often it was sent.
    pub sends: i32,
    /// What the provider calls it.
    pub provider_refund_ref: Option<String>,
    /// Of what asked for it, or of the attempt that was charged.
    pub traceparent: Option<String>,
    /// Raised by every transition.
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The order that is told when the money is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asker {
    pub order_id: OrderId,
    pub attempt_id: AttemptId,
}

/// What is known to have happened, or is about to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// It is going to be sent. Durable before it may leave.
    Send,
    /// The provider made it, now or at an earlier send.
    Refunded { provider_refund_ref: Option<String> },
    /// The provider says that it will not make it.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transition {
    pub next: Refund,
    /// For the order, once.
    pub announcement: Option<PaymentRefunded>,
}

/// It is so already, or cannot be any more: the event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("it is so already")]
pub struct AlreadySo;

impl Refund {
    /// What the order is told of a refund that was made.
    #[must_use]
    pub fn settlement(&self) -> Option<PaymentRefunded> {
        let Asker { order_id, attempt_id } = self.asked_by.filter(|_| self.state == RefundState::Refunded)?;
        let (refund_id, amount_minor, currency) = (self.id, self.amount_minor, self.currency);
        Some(PaymentRefunded { order_id, attempt_id, refund_id, amount_minor, currency })
    }
}

/// The only place where a refund changes.
pub fn decide(refund: &Refund, event: &Event, now: DateTime<Utc>) -> Result<Transition, AlreadySo> {
    use RefundState as S;
    let next = Refund { version: refund.version + 1, updated_at: now, ..refund.clone() };
    let accept = |next: Refund| Ok(Transition { announcement: next.settlement(), next });
    match (refund.state, event) {
        (S::Refunded, _) => Err(AlreadySo),
        // Requested, Sent, Review → Sent, Review: a refusal is not forgotten by another try.
        (state, Event::Send) => accept(Refund {
            state: if state == S::Review { S::Review } else { S::Sent },
            sends: refund.sends.saturating_add(1),
            ..next
        }),
        // Requested, Sent, Review → Refunded
        (_, Event::Refunded { provider_refund_ref }) => {
            accept(Refund { state: S::Refunded, provider_refund_ref: provider_refund_ref.clone(), ..next })
        }
        (S::Review, Event::Refused) => Err(AlreadySo),
        // Requested, Sent → Review
        (S::Requested | S::Sent, Event::Refused) => accept(Refund { state: S::Review, ..next }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requested() -> Refund {
        Refund {
            id: RefundId::generate(),
            channel: Channel::Primary,
            provider_ref: "ch_1".into(),
            amount_minor: 500,
            currency: Currency::USD,
            reason: "cancelled".into(),
            asked_by: Some(Asker { order_id: OrderId::generate(), attempt_id: AttemptId::generate() }),
            state: RefundState::Requested,
            sends: 0,
            provider_refund_ref: None,
            traceparent: None,
            version: 1,
            created_at: Utc::now(),
            updated_at: Utc::now(),
        }
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => Just(Event::Send),
            1 => Just(Event::Refused),
            1 => Just(Event::Refunded { provider_refund_ref: Some("re_1".into()) }),
        ]
    }

    #[test]
    fn a_refund_is_sent_again_until_it_is_acknowledged() {
        let mut refund = requested();
        for sends in 1..4 {
            refund = decide(&refund, &Event::Send, Utc::now()).unwrap().next;
            assert_eq!((refund.state, refund.sends), (RefundState::Sent, sends));
        }
        let made = Event::Refunded { provider_refund_ref: None };
        let transition = decide(&refund, &made, Utc::now()).unwrap();
        assert_eq!(transition.announcement.unwrap().amount_minor, 500);
        for late in [Event::Send, made, Event::Refused] {
            assert_eq!(decide(&transition.next, &late, Utc::now()), Err(AlreadySo));
        }
    }

    #[test]
    fn one_that_is_refused_stays_with_a_person_and_may_still_be_made() {
        let refused = decide(&requested(), &Event::Refused, Utc::now()).unwrap().next;
        assert_eq!(refused.state, RefundState::Review);
        let again = decide(&refused, &Event::Send, Utc::now()).unwrap().next;
        assert_eq!(again.state, RefundState::Review);
        let made = decide(&again, &Event::Refunded { provider_refund_ref: None }, Utc::now()).unwrap();
        assert_eq!(made.next.state, RefundState::Refunded);
    }

    #[test]
    fn nobody_is_told_of_a_charge_that_was_one_too_many() {
        let ours = Refund { asked_by: None, ..requested() };
        let made = decide(&ours, &Event::Refunded { provider_refund_ref: None }, Utc::now()).unwrap();
        assert_eq!(made.announcement, None);
    }

    proptest! {
        #[test]
        fn it_ends_when_it_is_made_and_is_announced_once(events in prop::collection::vec(event(), 0..20)) {
            let (mut refund, mut told) = (requested(), 0);
            for event in &events {
                let ended = refund.state == RefundState::Refunded;
                if let Ok(transition) = decide(&refund, event, Utc::now()) {
                    prop_assert!(!ended);
                    prop_assert_eq!(transition.next.version, refund.version + 1);
                    told += i32::from(transition.announcement.is_some());
                    refund = transition.next;
                }
            }
            prop_assert_eq!(told, i32::from(refund.state == RefundState::Refunded));
        }
    }
}
