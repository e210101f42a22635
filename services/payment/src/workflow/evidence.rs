//! What is done with evidence, by whatever path it comes: the one function through which an attempt that exists changes.

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, Money,
    payment::{AttemptState, Channel, Charge},
    provider::idempotency_key,
};
use durable::StorageError;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{
    domain::attempt::{Attempt, Event, Refusal, decide},
    store::{
        attempts::{self, Source},
        charges::{self, ProvenCharge, Role},
        refunds,
    },
};

/// For ids of refunds that nobody asked for: one a charge, so that it goes back once.
const EXTRA_CHARGES: Uuid = Uuid::from_u128(0x8f0c_71d2_5d0e_5c6b_9a57_31f4_7c2e_a911);
/// What people read of them.
const EXTRA_CHARGE: &str = "extra_charge";

/// The attempt after the evidence, and why it changed nothing, if it did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub attempt: Attempt,
    pub refusal: Option<Refusal>,
}

/// Applies `event` to an attempt whose row the caller has locked. A charge that settles nothing is put on record, and
/// goes back.
pub async fn take(
    conn: &mut PgConnection,
    attempt: Attempt,
    event: &Event,
    source: &Source,
    now: DateTime<Utc>,
) -> Result<Taken, StorageError> {
    match decide(&attempt, event, now) {
        Ok(transition) => {
            if !attempts::apply(conn, &attempt, event, &transition, source).await? {
                // Locked, and yet it moved.
                return Err(StorageError::Bug(sqlx::Error::RowNotFound));
            }
            super::settle::count(&transition.next);
            if transition.next.state == AttemptState::Review {
                tracing::error!(attempt_id = %attempt.id, "nobody at the provider says what became of a charge: review");
            }
            if let (Event::Approved { .. }, Some(said), Some(content)) = (event, source.amount, &attempt.content)
                && said != content.amount()
            {
                metrics::counter!("payment_amount_mismatches_total").increment(1);
                tracing::error!(attempt_id = %attempt.id, charged = %said, "another amount was charged than was asked for");
            }
            Ok(Taken { attempt: transition.next, refusal: None })
        }
        Err(refusal) => {
            if let (Refusal::ExtraCharge, Event::Approved { channel, provider_ref }) = (refusal, event) {
                give_back(conn, &attempt, *channel, provider_ref, source, now).await?;
            }
            super::settle::log_refusal(&attempt, event, refusal);
            Ok(Taken { attempt, refusal: Some(refusal) })
        }
    }
}

/// A charge for an attempt that it does not settle.
pub(super) async fn give_back(
    conn: &mut PgConnection,
    attempt: &Attempt,
    channel: Channel,
    provider_ref: &str,
    source: &Source,
    now: DateTime<Utc>,
) -> Result<(), StorageError> {
    // Whoever asked was not told how much it was; it was what the attempt says. A tombstone's charge is found in the
    // ledger, where the amount stands.
    let Some(amount) = source.amount.or_else(|| attempt.content.as_ref().map(Charge::amount)) else {
        return Ok(());
    };
    let key = idempotency_key(attempt.id);
    // Where nothing nearer brought it, it goes back in the trace of its attempt.
    let traceparent = source.traceparent.clone().or_else(|| attempt.traceparent.clone());
    let source = Source { traceparent, ..source.clone() };
    give_back_charge(conn, Some(attempt.id), &key, channel, provider_ref, amount, &source, now).await
}

/// Puts a charge that settles nothing on record, with the refund of it, once.
#[expect(clippy::too_many_arguments, reason = "a charge has as many parts")]
pub(super) async fn give_back_charge(
    conn: &mut PgConnection,
    attempt_id: Option<AttemptId>,
    key: &str,
    channel: Channel,
    provider_ref: &str,
    amount: Money,
    source: &Source,
    now: DateTime<Utc>,
) -> Result<(), StorageError> {
    let charge = ProvenCharge {
        channel,
        provider_ref: provider_ref.to_owned(),
        key: key.to_owned(),
        attempt_id,
        amount_minor: amount.amount_minor,
        currency: amount.currency,
        found_by: source.found_by,
    };
    if charges::insert(conn, &charge, Role::Extra).await? {
        let id = Uuid::new_v5(&EXTRA_CHARGES, format!("{}/{provider_ref}", channel.as_str()).as_bytes());
        let (id, traceparent) = (contracts::RefundId::from_uuid(id), source.traceparent.clone());
        refunds::insert_extra(conn, id, &charge, EXTRA_CHARGE, traceparent, now).await?;
        metrics::counter!("payment_extra_charges_total").increment(1);
        tracing::error!(
            attempt_id = ?attempt_id, channel = channel.as_str(), provider_ref, found_by = source.found_by.as_str(),
            "a charge that settles nothing goes back"
        );
    }
    Ok(())
}
