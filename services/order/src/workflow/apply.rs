//! One transition: lock, decide, save order + history + outbox + key in one transaction, then tell who waits.

use std::time::Duration;

use chassis::RequestContext;
use chrono::{DateTime, SubsecRound, Utc};
use contracts::{
    OrderId,
    event::{OrderConfirmed, OrderRejected, PaymentUnknown},
    order::{HistoryEntry, OrderCouponState, OrderItem, OrderStatus, StatusReason, Suggestion},
    trace::TraceContext,
};
use durable::{
    StorageError,
    idempotency::{self, Held},
    outbox::enqueue_data,
    within,
};
use resilience::{Deadline, degrade::Served};
use sqlx::PgConnection;

use super::Workflow;
use crate::{
    domain::{Effect, Event, KeyFate, Order, Refusal, decide},
    store::{history, orders},
};

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("there is no such order")]
    NotFound,
    /// The event does not fit the order; nothing was changed.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// Another run holds the order now; nothing was changed.
    #[error("fenced off by another run")]
    FencedOff,
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<sqlx::Error> for ApplyError {
    fn from(error: sqlx::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// What the shell adds to an order beside the event.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    pub suggestions: Option<Served<Vec<Suggestion>>>,
}

impl Workflow {
    /// Applies `event`. A run passes the right by which it works; an event from outside passes `None`.
    pub async fn apply(
        &self,
        id: OrderId,
        held: Option<Held>,
        event: &Event,
        extras: Extras,
        deadline: Deadline,
    ) -> Result<Order, ApplyError> {
        let applying = async {
            let mut tx = self.database.begin(deadline).await?;
            let order = self.apply_in(&mut tx, id, held, event, extras).await?;
            tx.commit().await?;
            Ok::<_, ApplyError>(order)
        };
        let order = within(deadline, applying).await?;
        self.applied(&order, event);
        Ok(order)
    }

    /// The same inside a transaction of the caller, who calls [`Self::applied`] after its commit.
    pub async fn apply_in(
        &self,
        conn: &mut PgConnection,
        id: OrderId,
        held: Option<Held>,
        event: &Event,
        extras: Extras,
    ) -> Result<Order, ApplyError> {
        let mut before = orders::lock(conn, id).await?.ok_or(ApplyError::NotFound)?;
        if let Some(held) = held
            && !idempotency::still_held(conn, held).await?
        {
            return Err(ApplyError::FencedOff);
        }
        if let Some(suggestions) = extras.suggestions {
            before.suggestions = suggestions.value;
            before.degraded.extend(suggestions.degraded.map(str::to_owned));
        }
        // PostgreSQL keeps microseconds: what is answered now and what is read later are the same.
        let now = Utc::now().trunc_subsecs(6);
        let transition = decide(&before, event, now).map_err(ApplyError::Refused)?;
        let mut order = transition.order;
        for effect in transition.effects {
            emit(conn, &mut order, effect, now).await?;
        }
        if !orders::update(conn, &order, before.status, matches!(event, Event::StockHeld { .. })).await? {
            // Cannot be while the row is locked; a conflict all the same, and never an overwrite.
            return Err(ApplyError::Refused(Refusal::NotYet));
        }
        let entry = HistoryEntry {
            at: now,
            from: Some(before.status),
            to: order.status,
            event: event.name().to_owned(),
            detail: transition.detail,
        };
        history::insert(conn, id, &entry).await?;
        match transition.key {
            KeyFate::Keep => {}
            KeyFate::Complete => idempotency::complete(conn, id.as_uuid(), first_status(&order)).await?,
            KeyFate::Release => idempotency::release(conn, id.as_uuid()).await?,
        }
        Ok(order)
    }

    /// A refusal that invites a retry: the retry must not meet this order's own hold. After the commit and not before,
    /// since an order whose stock is gone must not live on if this process dies in between.
    pub async fn release_before_retry(&self, order: &Order) {
        if order.status == OrderStatus::Rejected && order.problem.as_ref().is_some_and(|problem| problem.retryable) {
            let trace = order.traceparent.as_deref().and_then(|text| text.parse().ok());
            let context = RequestContext::for_job("release", trace.unwrap_or_else(TraceContext::root), RELEASE_BUDGET);
            self.inventory.release(&context, order.id).await;
        }
    }

    /// After the commit: wakes the relay and whoever waits for the order.
    pub fn applied(&self, order: &Order, event: &Event) {
        self.outbox.wake();
        self.changes.announce(order.id);
        if order.status.is_final() {
            let reason = order.reason.map_or("none", StatusReason::as_str);
            metrics::counter!("orders_total", "status" => order.status.as_str(), "reason" => reason).increment(1);
        }
        tracing::info!(order_id = %order.id, event = event.name(), status = order.status.as_str(), "order");
    }
}

/// A release before a retryable refusal is a courtesy to the retry; the event that follows makes sure.
const RELEASE_BUDGET: Duration = Duration::from_millis(200);

/// What the order's first answer was; repeated requests are answered in its kind.
fn first_status(order: &Order) -> u16 {
    match &order.problem {
        Some(problem) => problem.status,
        None if order.status.is_final() => 201,
        None => 202,
    }
}

/// Writes the event that `effect` stands for. Each raises the order's version.
async fn emit(conn: &mut PgConnection, order: &mut Order, effect: Effect, now: DateTime<Utc>) -> sqlx::Result<()> {
    order.version += 1;
    let (version, trace) = (order.version, order.traceparent.clone());
    match effect {
        Effect::Confirmed => enqueue_data(conn, &confirmed(order), version, trace, now).await,
        Effect::Rejected => {
            let reason = order.reason.unwrap_or(StatusReason::Expired);
            enqueue_data(conn, &OrderRejected { order_id: order.id, reason }, version, trace, now).await
        }
        Effect::PaymentUnknown => match order.payment.attempt_id {
            Some(attempt_id) => {
                let unknown = PaymentUnknown { order_id: order.id, attempt_id };
                enqueue_data(conn, &unknown, version, trace, now).await
            }
            None => return Ok(()),
        },
    }
    .map(drop)
}

fn confirmed(order: &Order) -> OrderConfirmed {
    let items = order.lines.iter().filter_map(|line| {
        let (name, unit_price_minor) = line.named.clone()?;
        Some(OrderItem { sku: line.sku.clone(), name, quantity: line.quantity, unit_price_minor })
    });
    OrderConfirmed {
        order_id: order.id,
        user_id: order.user_id,
        items: items.collect(),
        currency: order.price.currency,
        total_minor: order.price.total_minor,
        // Only a coupon that took its discount off is redeemed by this event.
        coupon_code: order.coupon.code.clone().filter(|_| order.coupon.state == OrderCouponState::Applied),
    }
}
