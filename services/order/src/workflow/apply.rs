//! One transition: lock, decide, save order + history + outbox + key in one transaction, then tell who waits.

use chassis::crash_point;
use chrono::{SubsecRound, Utc};
use contracts::{
    OrderId,
    order::{HistoryEntry, OrderPaymentState, OrderStatus, StatusReason, Suggestion},
};
use durable::{
    StorageError,
    idempotency::{self, Held},
    within,
};
use resilience::{Deadline, degrade::Served};
use sqlx::PgConnection;

use super::{Workflow, emit::emit};
use crate::{
    domain::{Event, KeyFate, Order, Refusal, decide},
    store::{history, orders, refunds},
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

/// A transition that was saved.
#[derive(Debug)]
pub struct Applied {
    pub order: Order,
    /// Where the order stood before.
    pub from: OrderStatus,
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
            let applied = self.apply_in(&mut tx, id, held, event, extras).await?;
            crash_point("order.transition_written");
            tx.commit().await?;
            Ok::<_, ApplyError>(applied)
        };
        let applied = within(deadline, applying).await?;
        self.applied(&applied, event);
        Ok(applied.order)
    }

    /// The same inside a transaction of the caller, who calls [`Self::applied`] after its commit.
    pub async fn apply_in(
        &self,
        conn: &mut PgConnection,
        id: OrderId,
        held: Option<Held>,
        event: &Event,
        extras: Extras,
    ) -> Result<Applied, ApplyError> {
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
        let change = orders::Change {
            from: before.status,
            prices: matches!(event, Event::StockHeld { .. }),
            to_acknowledge: order.status.is_final() && !transition.effects.is_empty(),
        };
        for effect in transition.effects {
            emit(conn, &mut order, effect, now).await?;
        }
        if !orders::update(conn, &order, change).await? {
            // Cannot be while the row is locked; a conflict all the same, and never an overwrite.
            return Err(ApplyError::Refused(Refusal::NotYet));
        }
        refunds::save(conn, &order, now).await?;
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
        Ok(Applied { order, from: before.status })
    }

    /// After the commit: wakes the relay and whoever waits for the order.
    pub fn applied(&self, Applied { order, from }: &Applied, event: &Event) {
        self.outbox.wake();
        self.changes.announce(order.id);
        if order.status != *from {
            metrics::counter!("orders_entered_total", "status" => order.status.as_str()).increment(1);
        }
        if order.status != *from && order.status.is_final() {
            let reason = order.reason.map_or("none", StatusReason::as_str);
            metrics::counter!("orders_total", "status" => order.status.as_str(), "reason" => reason).increment(1);
        }
        if order.payment.state == OrderPaymentState::Deferred && matches!(event, Event::NotDispatched { .. }) {
            self.payment.switch().serve((), "defer");
        }
        tracing::info!(order_id = %order.id, event = event.name(), status = order.status.as_str(), "order");
    }
}

/// What the order's first answer was; repeated requests are answered in its kind.
fn first_status(order: &Order) -> u16 {
    match &order.problem {
        Some(problem) => problem.status,
        None if order.status == OrderStatus::Confirmed => 201,
        None => 202,
    }
}
