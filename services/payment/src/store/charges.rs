//! Charges that the provider proved: one row each, by whatever path and however often it is proved.

use std::collections::HashSet;

use contracts::{AttemptId, Currency, payment::Channel};
use durable::StorageError;
use sqlx::PgConnection;

/// The path by which a charge was proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// The answer to the charge itself.
    Call,
    /// We asked.
    Question,
    /// The provider told us.
    Webhook,
    /// We read its ledger.
    Ledger,
}

impl FoundBy {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Question => "question",
            Self::Webhook => "webhook",
            Self::Ledger => "ledger",
        }
    }
}

/// A charge, as it was proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenCharge {
    pub channel: Channel,
    pub provider_ref: String,
    /// The idempotency key that came with it.
    pub key: String,
    pub attempt_id: Option<AttemptId>,
    pub amount_minor: i64,
    pub currency: Currency,
    pub found_by: FoundBy,
}

/// What a charge is to its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Settling,
    Extra,
}

impl Role {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Settling => "settling",
            Self::Extra => "extra",
        }
    }
}

/// Which of these charges of a channel are on record.
pub async fn known(conn: &mut PgConnection, channel: Channel, refs: &[&str]) -> Result<HashSet<String>, StorageError> {
    let known: Vec<String> =
        sqlx::query_scalar("select provider_ref from charges where channel = $1 and provider_ref = any($2)")
            .bind(channel.as_str())
            .bind(refs)
            .fetch_all(conn)
            .await?;
    Ok(known.into_iter().collect())
}

/// False: it is on record already, whatever its role.
pub async fn insert(conn: &mut PgConnection, charge: &ProvenCharge, role: Role) -> Result<bool, StorageError> {
    let inserted = sqlx::query(
        "insert into charges (channel, provider_ref, key, attempt_id, amount_minor, currency, role, found_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict on constraint charges_pkey do nothing",
    )
    .bind(charge.channel.as_str())
    .bind(&charge.provider_ref)
    .bind(&charge.key)
    .bind(charge.attempt_id.map(AttemptId::as_uuid))
    .bind(charge.amount_minor)
    .bind(charge.currency.to_string())
    .bind(role.as_str())
    .bind(charge.found_by.as_str())
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}
