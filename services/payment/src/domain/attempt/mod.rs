//! One attempt to charge: what is known of it, and what may happen to it. [`decide`] is the only function that changes
//! one.

mod decide;
#[cfg(test)]
mod tests;

use std::time::Duration;

use chrono::{DateTime, Utc};
use contracts::{
    AttemptId,
    event::{PaymentApproved, PaymentDeclined, PaymentFenced, PaymentReview, ReconcileDue},
    payment::{AttemptState, Channel, Charge, NotDispatchedReason},
};

pub use decide::decide;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    pub id: AttemptId,
    /// What is to be charged; missing in a tombstone alone.
    pub content: Option<Charge>,
    pub state: AttemptState,
    /// Where the last dispatch went; after a settlement, where the charge is.
    pub channel: Option<Channel>,
    /// Raised by every dispatch.
    pub dispatch_no: i32,
    /// Since when each channel may have been told to charge. Once set it stays, whatever the dispatch came to: what was
    /// believed not to have left is asked after like everything else.
    pub intents: Intents,
    pub provider_ref: Option<String>,
    pub decline_code: Option<String>,
    pub not_dispatched_reason: Option<NotDispatchedReason>,
    /// Order lets this one wait for a better moment, since then.
    pub deferred_at: Option<DateTime<Utc>>,
    /// Of the request that it follows from: what is told or sent later belongs to the same trace.
    pub traceparent: Option<String>,
    /// Raised by every transition.
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// The last moment at which a request is known to have been able to leave; none while none can have.
    pub last_may_have_left_at: Option<DateTime<Utc>>,
}

/// When the intent to send to each channel became durable, for the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Intents {
    pub primary: Option<DateTime<Utc>>,
    pub backup: Option<DateTime<Utc>>,
}

/// When each channel was asked that said that it knows nothing of the charge: before the question left.
pub type NotFoundAt = Intents;

impl Intents {
    #[must_use]
    pub const fn at(&self, channel: Channel) -> Option<DateTime<Utc>> {
        match channel {
            Channel::Primary => self.primary,
            Channel::Backup => self.backup,
        }
    }

    #[must_use]
    pub const fn with(self, channel: Channel, at: DateTime<Utc>) -> Self {
        match channel {
            Channel::Primary => Self { primary: Some(at), ..self },
            Channel::Backup => Self { backup: Some(at), ..self },
        }
    }

    /// The channels that were ever told.
    pub fn channels(self) -> impl Iterator<Item = Channel> {
        Channel::ALL.into_iter().filter(move |channel| self.at(*channel).is_some())
    }
}

impl Attempt {
    /// An attempt that nothing was done for yet.
    #[must_use]
    pub const fn new(id: AttemptId, content: Charge, now: DateTime<Utc>) -> Self {
        Self::bare(id, Some(content), AttemptState::Created, now)
    }

    /// An attempt that was fenced before it was heard of: whatever comes for it later is refused.
    #[must_use]
    pub const fn tombstone(id: AttemptId, now: DateTime<Utc>) -> Self {
        Self::bare(id, None, AttemptState::Fenced, now)
    }

    const fn bare(id: AttemptId, content: Option<Charge>, state: AttemptState, now: DateTime<Utc>) -> Self {
        Self {
            id,
            content,
            state,
            channel: None,
            dispatch_no: 0,
            intents: Intents { primary: None, backup: None },
            provider_ref: None,
            decline_code: None,
            not_dispatched_reason: None,
            deferred_at: None,
            traceparent: None,
            version: 1,
            created_at: now,
            updated_at: now,
            last_may_have_left_at: None,
        }
    }

    /// In this trace, unless it is in one already.
    #[must_use]
    pub fn traced(mut self, traceparent: Option<String>) -> Self {
        self.traceparent = self.traceparent.or(traceparent);
        self
    }

    /// Nothing is left to be found out. A charge may still prove this wrong.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        matches!(self.state, AttemptState::Approved | AttemptState::Declined | AttemptState::Fenced)
    }
}

/// What is known to have happened, or is about to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The request is going to be sent. Durable before it may leave.
    Dispatch { channel: Channel },
    /// The request of this dispatch certainly did not leave. Of dispatch 0: none was even begun.
    NotDispatched { dispatch_no: i32, reason: NotDispatchedReason },
    /// The provider proved a charge, by whatever path.
    Approved { channel: Channel, provider_ref: String },
    /// The provider said no, with a code of its own.
    Declined { channel: Channel, code: String, provider_ref: Option<String> },
    /// The request of this dispatch may have left, and nothing tells what came of it: its call is over, or whoever made
    /// it is gone.
    Unknown { dispatch_no: i32 },
    /// Channels were asked, and know nothing of a charge. `settle`: how long a request may be on its way to a charge.
    NotFound { at: NotFoundAt, settle: Duration },
    /// A channel that has to be asked gave no answer, at the last of many tries.
    Unanswered,
    /// Order wants to be sure that nothing will be sent.
    Fence,
    /// Order lets the charge wait: it is sent when the provider can take it.
    Defer,
}

impl Event {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Dispatch { .. } => "dispatch",
            Self::NotDispatched { .. } => "not_dispatched",
            Self::Approved { .. } => "approved",
            Self::Declined { .. } => "declined",
            Self::Unknown { .. } => "unknown",
            Self::NotFound { .. } => "not_found",
            Self::Unanswered => "unanswered",
            Self::Fence => "fence",
            Self::Defer => "defer",
        }
    }

    /// For the history.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Dispatch { channel } => Some(channel.as_str()),
            Self::NotDispatched { reason, .. } => Some(reason.as_str()),
            Self::Approved { provider_ref, .. } => Some(provider_ref),
            Self::Declined { code, .. } => Some(code),
            Self::Unknown { .. } | Self::NotFound { .. } | Self::Unanswered | Self::Fence | Self::Defer => None,
        }
    }
}

/// What an accepted event leads to: saved together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transition {
    pub next: Attempt,
    pub announcement: Option<Announcement>,
}

/// The message that goes out with a transition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Announcement {
    Approved(PaymentApproved),
    Declined(PaymentDeclined),
    Fenced(PaymentFenced),
    /// A person should look: nobody at the provider says what became of it.
    Review(PaymentReview),
    /// A note to ourselves: the provider has to be asked.
    Reconcile(ReconcileDue),
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// Drop the event.
    #[error("it is so already")]
    AlreadySo,
    /// Come again when more is known.
    #[error("not yet: {0}")]
    NotYet(&'static str),
    /// It will never be accepted.
    #[error("never: {0}")]
    Never(&'static str),
    /// Money was taken that settles nothing: it goes back. The attempt itself stays as it is.
    #[error("the charge is one too many")]
    ExtraCharge,
}
