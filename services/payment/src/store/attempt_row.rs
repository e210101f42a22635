//! A row of attempts, and what it says: the attempt, and which message asks about it next.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use contracts::{AttemptId, EventId, OrderId, payment::Charge};
use durable::StorageError;
use uuid::Uuid;

use super::variant;
use crate::domain::attempt::{Attempt, Intents};

/// The message that asks the provider about an attempt next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextQuestion {
    pub event: EventId,
    pub tier: usize,
    pub due: DateTime<Utc>,
}

impl NextQuestion {
    /// Whatever was to ask by now did not.
    #[must_use]
    pub fn is_lost(&self, after: Duration) -> bool {
        TimeDelta::from_std(after).is_ok_and(|after| Utc::now() > self.due + after)
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    id: Uuid,
    order_id: Option<Uuid>,
    amount_minor: Option<i64>,
    currency: Option<String>,
    payment_method: Option<String>,
    state: String,
    channel: Option<String>,
    dispatch_no: i32,
    primary_intent_at: Option<DateTime<Utc>>,
    backup_intent_at: Option<DateTime<Utc>>,
    provider_ref: Option<String>,
    decline_code: Option<String>,
    not_dispatched_reason: Option<String>,
    deferred_at: Option<DateTime<Utc>>,
    traceparent: Option<String>,
    version: i64,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    last_may_have_left_at: Option<DateTime<Utc>>,
    reconcile_event: Option<Uuid>,
    reconcile_tier: Option<i16>,
    reconcile_due_at: Option<DateTime<Utc>>,
}

impl Row {
    pub fn with_question(self) -> Result<(Attempt, Option<NextQuestion>), StorageError> {
        let next = match (self.reconcile_event, self.reconcile_tier, self.reconcile_due_at) {
            (Some(event), Some(tier), Some(due)) => Some(NextQuestion {
                event: EventId::from_uuid(event),
                tier: usize::try_from(tier).unwrap_or_default(),
                due,
            }),
            _ => None,
        };
        Ok((Attempt::try_from(self)?, next))
    }
}

impl TryFrom<Row> for Attempt {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        let content = match (row.order_id, row.amount_minor, row.currency, row.payment_method) {
            (Some(order), Some(amount_minor), Some(currency), Some(payment_method)) => Some(Charge {
                order_id: OrderId::from_uuid(order),
                amount_minor,
                currency: currency.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
                payment_method,
            }),
            _ => None,
        };
        Ok(Self {
            id: AttemptId::from_uuid(row.id),
            content,
            state: variant(&row.state)?,
            channel: row.channel.as_deref().map(variant).transpose()?,
            dispatch_no: row.dispatch_no,
            intents: Intents { primary: row.primary_intent_at, backup: row.backup_intent_at },
            provider_ref: row.provider_ref,
            decline_code: row.decline_code,
            not_dispatched_reason: row.not_dispatched_reason.as_deref().map(variant).transpose()?,
            deferred_at: row.deferred_at,
            traceparent: row.traceparent,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
            last_may_have_left_at: row.last_may_have_left_at,
        })
    }
}
