//! Every charge in the provider's ledger is accounted for: it settles an attempt, or it goes back.
//!
//! A fence is our decision and not the provider's, a webhook may be lost, and a request may arrive after everybody has
//! given it up. What nothing else finds stands here.

use std::{collections::HashSet, time::Duration};

use chassis::RequestContext;
use chrono::Utc;
use contracts::{
    AttemptId, Money,
    payment::{AttemptState, Channel},
    provider::{ChargeState, LedgerCharge},
};
use durable::StorageError;
use resilience::Deadline;

use super::{Payments, evidence};
use crate::{
    domain::attempt::Event,
    store::{
        attempts::{self, Source},
        charges::{self, FoundBy},
    },
};

/// Reads a ledger that has grown for a day.
const READ_BUDGET: Duration = Duration::from_secs(15);
const BUDGET: Duration = Duration::from_secs(3);
/// Charges looked up at once.
const CHUNK: usize = 500;

impl Payments {
    /// Compares the ledger of a channel with what we know, and says how many charges had to be accounted for. `None`:
    /// the channel did not answer.
    pub async fn compare_ledger(&self, channel: Channel) -> Result<Option<usize>, StorageError> {
        let context = RequestContext::for_job("ledger", None, READ_BUDGET);
        let Some(ledger) = self.providers.at(channel).ledger(&context).await else { return Ok(None) };
        let approved: Vec<LedgerCharge> =
            ledger.charges.into_iter().filter(|charge| charge.state == ChargeState::Approved).collect();
        let mut found = 0;
        for chunk in approved.chunks(CHUNK) {
            let refs: Vec<&str> = chunk.iter().map(|charge| charge.id.as_str()).collect();
            let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
            let known: HashSet<String> = charges::known(&mut tx, channel, &refs).await?;
            drop(tx);
            for charge in chunk.iter().filter(|charge| !known.contains(&charge.id)) {
                found += usize::from(self.account_for(channel, charge).await?);
            }
        }
        if found > 0 {
            self.outbox.wake();
            self.wakes.refunds.notify_one();
        }
        Ok(Some(found))
    }

    /// False: its own call is still under way, and tells of it or leaves it to the sweeper.
    async fn account_for(&self, channel: Channel, charge: &LedgerCharge) -> Result<bool, StorageError> {
        let amount = Money::new(charge.amount_minor, charge.currency);
        let source = Source { amount: Some(amount), ..Source::of(FoundBy::Ledger, None) };
        let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
        let attempt = match charge.key.parse::<AttemptId>() {
            Ok(id) => attempts::lock(&mut tx, id).await?,
            Err(_) => None,
        };
        let now = Utc::now();
        match attempt {
            Some(attempt) if attempt.state == AttemptState::Dispatched => return Ok(false),
            Some(attempt) => {
                let event = Event::Approved { channel, provider_ref: charge.id.clone() };
                evidence::take(&mut tx, attempt, &event, &source, now).await?;
            }
            // An attempt is on record before its request can leave, so this charge is nobody's.
            None => {
                evidence::give_back_charge(&mut tx, None, &charge.key, channel, &charge.id, amount, &source, now)
                    .await?;
            }
        }
        tx.commit().await?;
        tracing::warn!(
            channel = channel.as_str(),
            provider_ref = charge.id,
            key = charge.key,
            "a charge was found in the ledger that nothing else had told of"
        );
        metrics::counter!("payment_ledger_findings_total").increment(1);
        Ok(true)
    }
}
