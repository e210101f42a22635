//! What the siblings make of what an order tells them.

use contracts::{
    AttemptId, Currency, Event, OrderId,
    coupon::RedemptionState,
    event::{
        CouponCompensate, CouponOutcome, CouponSettled, EventData, OrderCancelled, OrderConfirmed, OrderRejected,
        PaymentApproved, PaymentDeclined, PaymentDeferred, PaymentFenced, PaymentRefundRequested, PaymentRefunded,
        PaymentUnknown,
    },
    inventory::ReservationState,
    payment::{AttemptState, Channel},
};

use super::siblings::{Attempt, Books, DISCOUNT};

impl Books {
    pub fn release_stock(&mut self, order: OrderId) {
        use ReservationState as R;
        let after = match self.stock.get(&order) {
            Some(R::Committed | R::Returned) => R::Returned,
            _ => R::Released,
        };
        self.stock.insert(order, after);
    }

    fn release(&mut self, order: OrderId) {
        use RedemptionState as R;
        self.release_stock(order);
        let after = match self.coupons.get(&order) {
            Some(R::Committed | R::Returned) => R::Returned,
            _ => R::Released,
        };
        self.coupons.insert(order, after);
    }

    pub fn hear(&mut self, event: &Event) -> Vec<Event> {
        if let Some(confirmed) = read::<OrderConfirmed>(event) {
            if let Some(state @ ReservationState::Held) = self.stock.get_mut(&confirmed.order_id) {
                *state = ReservationState::Committed;
            }
            if confirmed.coupon_code.is_some()
                && let Some(state @ RedemptionState::Held) = self.coupons.get_mut(&confirmed.order_id)
            {
                *state = RedemptionState::Committed;
            }
        } else if let Some(rejected) = read::<OrderRejected>(event) {
            self.release(rejected.order_id);
        } else if let Some(cancelled) = read::<OrderCancelled>(event) {
            self.release(cancelled.order_id);
        } else if let Some(PaymentUnknown { order_id, attempt_id }) = read(event) {
            return self.reconcile(order_id, attempt_id);
        } else if let Some(deferred) = read::<PaymentDeferred>(event) {
            return self.send_deferred(&deferred);
        } else if let Some(asked) = read::<PaymentRefundRequested>(event) {
            let PaymentRefundRequested { order_id, attempt_id, refund_id, amount_minor, currency, .. } = asked;
            self.refunds.insert(refund_id, (order_id, amount_minor));
            return vec![said(&PaymentRefunded { order_id, attempt_id, refund_id, amount_minor, currency })];
        } else if let Some(CouponCompensate { order_id, .. }) = read(event) {
            use RedemptionState as R;
            if matches!(self.coupons.get(&order_id), Some(R::Released | R::Returned)) {
                return vec![];
            }
            self.coupons.insert(order_id, R::Committed);
            let outcome = CouponOutcome::Honoured { discount_minor: DISCOUNT };
            return vec![said(&CouponSettled { order_id, outcome })];
        }
        vec![]
    }

    /// Payment asks the provider, or fences what was never sent; of what is settled it tells again.
    pub fn reconcile(&mut self, order_id: OrderId, attempt_id: AttemptId) -> Vec<Event> {
        use AttemptState as A;
        let never = Attempt { order: order_id, state: A::Fenced, charged_minor: 0 };
        let attempt = self.attempts.entry(attempt_id).or_insert(never);
        attempt.state = match attempt.state {
            A::Unknown if attempt.charged_minor > 0 => A::Approved,
            A::Unknown | A::NotDispatched => A::Fenced,
            settled => settled,
        };
        vec![settlement(order_id, attempt_id, attempt)]
    }

    fn send_deferred(&mut self, deferred: &PaymentDeferred) -> Vec<Event> {
        use AttemptState as A;
        let (order_id, attempt_id) = (deferred.order_id, deferred.attempt_id);
        let never = Attempt { order: order_id, state: A::NotDispatched, charged_minor: 0 };
        let attempt = self.attempts.entry(attempt_id).or_insert(never);
        if attempt.state == A::NotDispatched {
            (attempt.state, attempt.charged_minor) = (A::Approved, deferred.amount_minor);
        }
        vec![settlement(order_id, attempt_id, attempt)]
    }
}

fn settlement(order_id: OrderId, attempt_id: AttemptId, attempt: &Attempt) -> Event {
    let channel = Channel::Primary;
    match attempt.state {
        AttemptState::Approved => said(&PaymentApproved {
            order_id,
            attempt_id,
            channel,
            provider_ref: "ch_1".into(),
            amount_minor: attempt.charged_minor,
            currency: Currency::USD,
        }),
        AttemptState::Declined => {
            said(&PaymentDeclined { order_id, attempt_id, channel, decline_code: "stolen_card".into() })
        }
        _ => said(&PaymentFenced { order_id, attempt_id }),
    }
}

fn said<D: EventData>(data: &D) -> Event {
    Event::new(data, 1, None, chrono::Utc::now()).unwrap()
}

fn read<D: EventData>(event: &Event) -> Option<D> {
    event.decode::<D>().map(Result::unwrap)
}
