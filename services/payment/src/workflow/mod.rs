//! The shell around [`crate::domain`]: loads, asks `decide`, saves, calls.
//!
//! [`charge`] for a new attempt, [`fence`] for one that shall not be sent, [`settle`] for what a call came to, and
//! [`evidence`] for every proof by whatever path it comes: [`reconcile`] asks, [`notice`] is told, [`ledger`] reads.
//! [`defer`] sends what waited, [`refund`] gives back, [`sweep`] looks after what stands still, [`requests`] is what order
//! says through Kafka, and [`review`] is what operators may do.

pub mod charge;
pub mod defer;
pub mod evidence;
pub mod fence;
pub mod ledger;
pub mod notice;
pub mod reconcile;
pub mod refund;
pub mod requests;
pub mod review;
pub mod settle;
pub mod sweep;

use std::sync::Arc;

use chassis::{Degradation, RequestContext};
use contracts::{AttemptId, payment::Channel};
use durable::{Database, outbox::Outbox};
use resilience::Deadline;
use rules::{PaymentLevel, Rules, RulesHandle};
use tokio::sync::Notify;

use crate::{domain::attempt::Attempt, downstream::provider::Providers, error::PaymentError, store::attempts};

/// Where this service may be made to die: between two steps whose order matters.
pub const CRASH_POINTS: &[&str] = &[
    // Nothing has left, and the row says that it may have.
    "payment.charge.intent_saved",
    // The provider's answer is known here and nowhere else.
    "payment.charge.answer_read",
    // The primary certainly was not told, and the backup is about to be.
    "payment.charge.backup_intent_saved",
    // The outcome is durable, and nobody was told.
    "payment.charge.recorded",
    "payment.fence.recorded",
    "payment.reconcile.asked",
    "payment.reconcile.recorded",
    "payment.webhook.stored",
    "payment.refund.requested",
    "payment.refund.intent_saved",
    "payment.refund.answer_read",
    "payment.deferred.intent_saved",
    "payment.swept",
];

/// What the acts need; one a process.
#[derive(Clone)]
pub struct Payments {
    database: Database,
    outbox: Outbox,
    providers: Arc<Providers>,
    rules: RulesHandle,
    degradation: Degradation,
    wakes: Wakes,
}

/// Tells a job of this process that something waits for it.
#[derive(Debug, Clone, Default)]
pub struct Wakes {
    pub notices: Arc<Notify>,
    pub refunds: Arc<Notify>,
    pub deferred: Arc<Notify>,
}

impl Payments {
    #[must_use]
    pub fn new(
        database: Database,
        outbox: Outbox,
        providers: Providers,
        rules: RulesHandle,
        degradation: Degradation,
    ) -> Self {
        Self { database, outbox, providers: Arc::new(providers), rules, degradation, wakes: Wakes::default() }
    }

    /// The attempt as it is now.
    pub async fn get(&self, id: AttemptId, deadline: Deadline) -> Result<Attempt, PaymentError> {
        let loading = async {
            let mut tx = self.database.begin(deadline).await?;
            attempts::load(&mut tx, id).await
        };
        durable::within(deadline, loading).await?.ok_or(PaymentError::NotFound(id))
    }

    /// Where a charge may be sent now, the first choice first: none while charges are withheld.
    fn channels(&self, context: &RequestContext) -> &'static [Channel] {
        match self.degradation.levels(context).payment {
            PaymentLevel::On => &Channel::ALL,
            PaymentLevel::BackupOnly => &[Channel::Backup],
            PaymentLevel::Defer | PaymentLevel::Off => &[],
        }
    }

    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.current()
    }

    #[must_use]
    pub fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    /// To be called when what order asked for is committed: whoever has to act on it may.
    pub fn committed(&self) {
        self.outbox.wake();
        self.wakes.refunds.notify_one();
        self.wakes.deferred.notify_one();
    }
}
