//! What order says that concerns payments.

use std::time::Duration;

use contracts::{
    Event,
    event::{EventData, PaymentDeferred, PaymentRefundRequested, PaymentUnknown},
};
use durable::inbox;
use events::{HandleError, Handler, Outcome};
use resilience::Deadline;

use super::decode;
use crate::workflow::Payments;

/// The consumer group, and payment's name in its inbox.
pub const GROUP: &str = "payment";

/// Far above one short transaction, far below what would hold up a shutdown.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub struct Orders(pub Payments);

enum Meaning {
    Unknown(PaymentUnknown),
    Deferred(PaymentDeferred),
    RefundRequested(PaymentRefundRequested),
}

impl Handler for Orders {
    async fn handle(&self, event: &Event) -> Result<Outcome, HandleError> {
        let meaning = match event.kind.as_str() {
            PaymentUnknown::TYPE => Meaning::Unknown(decode(event)?),
            PaymentDeferred::TYPE => Meaning::Deferred(decode(event)?),
            PaymentRefundRequested::TYPE => Meaning::RefundRequested(decode(event)?),
            _ => return Ok(Outcome::Ignored),
        };
        let Self(payments) = self;
        let mut tx = payments.database().begin(Deadline::after(LIMIT)).await?;
        if !inbox::first_delivery(&mut tx, GROUP, event.id).await? {
            return Ok(Outcome::Duplicate);
        }
        match meaning {
            Meaning::Unknown(said) => {
                let lost_after = payments.rules().reconcile.lost_after;
                payments.order_is_unsure(&mut tx, &said, event, lost_after).await?;
            }
            Meaning::Deferred(said) => {
                let deferred = payments.defer(&mut tx, &said, event).await?;
                deferred.map_err(|reason| HandleError::Refused(reason.to_string()))?;
            }
            Meaning::RefundRequested(said) => {
                let requested = payments.order_wants_back(&mut tx, &said, event).await?;
                requested.map_err(|reason| HandleError::Refused(reason.to_string()))?;
            }
        }
        tx.commit().await?;
        payments.committed();
        Ok(Outcome::Applied)
    }
}
