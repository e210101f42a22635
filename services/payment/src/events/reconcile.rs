//! Payment's own queue of questions: one handler for each of its tiers.

use contracts::{
    Event,
    event::{EventData, ReconcileDue},
};
use events::{HandleError, Handler, Outcome};

use super::decode;
use crate::workflow::{Payments, reconcile::Reconciled};

#[derive(Clone)]
pub struct Questions {
    pub payments: Payments,
    pub tier: usize,
}

impl Handler for Questions {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        if event.kind != ReconcileDue::TYPE {
            return Ok(Outcome::Ignored);
        }
        let due = decode::<ReconcileDue>(event)?;
        let (attempt_id, tier) = (due.attempt_id, self.tier);
        match self.payments.reconcile(event, &due, tier).await? {
            Reconciled::Settled(attempt) => {
                tracing::info!(%attempt_id, tier, state = attempt.state.as_str(), "reconciled");
                Ok(Outcome::Applied)
            }
            Reconciled::Later(attempt) => {
                tracing::info!(%attempt_id, tier, state = attempt.state.as_str(), "not yet to be reconciled");
                Ok(Outcome::Applied)
            }
            Reconciled::Stale => Ok(Outcome::Duplicate),
        }
    }
}
