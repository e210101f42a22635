//! Payment: on the core path. It alone knows what the provider was told.

use chassis::{CallError, Degradable, Downstream, RequestContext};
use contracts::{
    AttemptId, ProblemType,
    payment::{AttemptState, Channel, Charge, PaymentStatus},
};
use reqwest::Method;
use rules::RulesHandle;

use crate::domain::{Event, Order};

/// One a process.
pub struct Payment {
    charges: Downstream,
    /// Fences, behind guards of their own: they have to get through while charges do not.
    status: Downstream,
    rules: RulesHandle,
    switch: Degradable,
}

impl Payment {
    #[must_use]
    pub fn new(charges: Downstream, status: Downstream, rules: &RulesHandle, switch: Degradable) -> Self {
        Self { charges, status, rules: rules.clone(), switch }
    }

    #[must_use]
    pub fn switch(&self) -> &Degradable {
        &self.switch
    }

    /// Asks payment to charge once. Never repeated: what is not known stays unknown.
    pub async fn charge(&self, context: &RequestContext, order: &Order, attempt: AttemptId) -> Event {
        let body = Charge {
            order_id: order.id,
            amount_minor: order.price.total_minor,
            currency: order.price.currency,
            payment_method: order.payment_method.clone(),
        };
        let path = format!("/v1/payments/{attempt}");
        let not_dispatched = |left, reason: &str| {
            let defer_up_to = self.defer_up_to(context);
            Event::NotDispatched { attempt, left, reason: reason.to_owned(), defer_up_to }
        };
        match self.charges.call::<_, PaymentStatus>(context, Method::PUT, &path, Some(&body), &[]).await {
            Ok(answer) => known(attempt, answer.body),
            Err(CallError::NotSent(why)) => not_dispatched(false, why.as_str()),
            Err(CallError::Refused(problem)) => match problem.kind {
                ProblemType::PaymentNotDispatched => {
                    let reason = problem.extra.get("reason").and_then(|r| r.as_str()).unwrap_or("not_dispatched");
                    not_dispatched(true, reason)
                }
                ProblemType::PaymentFenced => Event::Fenced { attempt },
                // Nothing else proves that no charge was sent under this attempt.
                kind => {
                    tracing::error!(order_id = %order.id, %kind, "payment refused in an unexpected way");
                    Event::PaymentUnknown { attempt }
                }
            },
            Err(CallError::Unknown(_)) => Event::PaymentUnknown { attempt },
        }
    }

    /// Asks payment never to send this attempt. It says what it knows of one that it may have sent; `None`: it gave no
    /// answer.
    pub async fn fence(&self, context: &RequestContext, attempt: AttemptId) -> Option<Event> {
        let path = format!("/v1/payments/{attempt}/fence");
        match self.status.call::<(), PaymentStatus>(context, Method::POST, &path, None, &[]).await {
            Ok(answer) if answer.body.state == AttemptState::Review => Some(Event::InReview { attempt }),
            Ok(answer) => Some(known(attempt, answer.body)),
            Err(error) => {
                tracing::info!(%attempt, %error, "a fence without an answer");
                None
            }
        }
    }

    /// The largest total that may wait for its charge; nothing waits once payment is switched off.
    fn defer_up_to(&self, context: &RequestContext) -> Option<i64> {
        let on = self.switch.level(context) != "off";
        on.then(|| self.rules.current().degrade.defer_max_minor)
    }
}

/// What an answer of payment says about an order.
fn known(attempt: AttemptId, status: PaymentStatus) -> Event {
    let channel = status.channel.unwrap_or(Channel::Primary);
    match status.state {
        AttemptState::Approved => Event::Approved { attempt, channel },
        AttemptState::Declined => {
            Event::Declined { attempt, channel, code: status.decline_code.unwrap_or_else(|| "declined".to_owned()) }
        }
        AttemptState::Fenced => Event::Fenced { attempt },
        AttemptState::Created
        | AttemptState::Dispatched
        | AttemptState::Unknown
        | AttemptState::NotDispatched
        | AttemptState::Review => Event::PaymentUnknown { attempt },
    }
}
