//! Payment: on the core path. It alone knows what the provider was told.

use chassis::{CallError, Downstream, RequestContext};
use contracts::{
    AttemptId, ProblemType,
    payment::{AttemptState, Channel, Charge, PaymentStatus},
};
use reqwest::Method;

use crate::domain::{Event, Order};

#[derive(Clone)]
pub struct Payment {
    pub charges: Downstream,
    /// Fences, behind guards of their own: they have to get through while charges do not.
    pub status: Downstream,
}

impl Payment {
    /// Asks payment to charge once. Never repeated: what is not known stays unknown.
    pub async fn charge(&self, context: &RequestContext, order: &Order, attempt: AttemptId) -> Event {
        let body = Charge {
            order_id: order.id,
            amount_minor: order.price.total_minor,
            currency: order.price.currency,
            payment_method: order.payment_method.clone(),
        };
        let path = format!("/v1/payments/{attempt}");
        match self.charges.call::<_, PaymentStatus>(context, Method::PUT, &path, Some(&body), &[]).await {
            Ok(answer) => known(attempt, answer.body),
            Err(CallError::NotSent(why)) => {
                Event::NotDispatched { attempt, left: false, reason: why.as_str().to_owned() }
            }
            Err(CallError::Refused(problem)) => match problem.kind {
                ProblemType::PaymentNotDispatched => {
                    let reason = problem.extra.get("reason").and_then(|r| r.as_str()).unwrap_or("not_dispatched");
                    Event::NotDispatched { attempt, left: true, reason: reason.to_owned() }
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

    /// Asks payment never to send this attempt. Whatever it does not confirm stays unknown.
    pub async fn fence(&self, context: &RequestContext, attempt: AttemptId) -> Event {
        let path = format!("/v1/payments/{attempt}/fence");
        match self.status.call::<(), PaymentStatus>(context, Method::POST, &path, None, &[]).await {
            Ok(answer) => known(attempt, answer.body),
            Err(_) => Event::PaymentUnknown { attempt },
        }
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
