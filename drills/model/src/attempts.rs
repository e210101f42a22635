//! Payment's own `decide`, asked in the model's words; see [`crate::orders`].

use std::{cell::RefCell, collections::HashMap, time::Duration};

use chrono::TimeDelta;
use contracts::{
    AttemptId, Currency, OrderId,
    payment::{Channel, Charge, NotDispatchedReason},
};
use payment::domain::attempt::{self, Announcement, Attempt, Event, Intents, Refusal};
use uuid::Uuid;

use crate::{
    orders::NOW,
    rows::{Row, Shelf},
    world::{News, Side},
};

pub type AttemptRow = Row<Attempt>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptEvent {
    Dispatch(Side),
    NotDispatched {
        dispatch_no: i32,
    },
    Approved(Side),
    Declined(Side),
    Unknown {
        dispatch_no: i32,
    },
    /// These channels were asked, and know nothing, after any request can still be on its way.
    NotFound {
        primary: bool,
        backup: bool,
    },
    Unanswered,
    Fence,
    Defer,
}

#[derive(Debug, Clone, Copy)]
pub struct Decided {
    pub row: AttemptRow,
    /// What order is told. The note to reconcile is left out: whether an attempt needs it is seen in its state.
    pub news: Option<News>,
}

static ATTEMPTS: Shelf<Attempt> = Shelf::new();

thread_local! {
    static ANSWERS: RefCell<HashMap<(AttemptRow, AttemptEvent), Result<Decided, Refusal>>> = RefCell::default();
}

const ATTEMPT: AttemptId = AttemptId::from_uuid(Uuid::from_u128(2));
const SETTLE: Duration = Duration::from_secs(10);

pub fn decide(row: AttemptRow, event: AttemptEvent) -> Result<Decided, Refusal> {
    ANSWERS.with_borrow_mut(|answers| {
        *answers.entry((row, event)).or_insert_with(|| {
            let transition = attempt::decide(&row, &said(event), NOW)?;
            let news = transition.announcement.as_ref().and_then(news);
            Ok(Decided { row: keep(transition.next), news })
        })
    })
}

/// Its settlement once more.
#[must_use]
pub fn settlement(row: AttemptRow) -> Option<News> {
    row.settlement().as_ref().and_then(news)
}

/// How often a row was written tells nothing apart that `decide` looks at.
pub fn keep(attempt: Attempt) -> AttemptRow {
    ATTEMPTS.keep(Attempt { version: 1, ..attempt })
}

/// An attempt that nothing was done for yet.
pub fn created(amount_minor: i64) -> AttemptRow {
    let content = Charge {
        order_id: OrderId::from_uuid(Uuid::from_u128(1)),
        amount_minor,
        currency: Currency::USD,
        payment_method: "card".to_owned(),
    };
    keep(Attempt::new(ATTEMPT, content, NOW))
}

/// A fence that came before the attempt.
pub fn tombstone() -> AttemptRow {
    keep(Attempt::tombstone(ATTEMPT, NOW))
}

fn news(announcement: &Announcement) -> Option<News> {
    match announcement {
        Announcement::Approved(data) => Some(News::Approved(data.channel.into())),
        Announcement::Declined(data) => Some(News::Declined(data.channel.into())),
        Announcement::Fenced(_) => Some(News::Fenced),
        Announcement::Review(_) => Some(News::Review),
        Announcement::Reconcile(_) => None,
    }
}

/// The event in the domain's words. A provider's reference is told by the channel: each charges an attempt once.
fn said(event: AttemptEvent) -> Event {
    let provider_ref = |side: Side| side.channel().as_str().to_owned();
    match event {
        AttemptEvent::Dispatch(side) => Event::Dispatch { channel: side.channel() },
        AttemptEvent::NotDispatched { dispatch_no } => {
            Event::NotDispatched { dispatch_no, reason: NotDispatchedReason::BreakerOpen }
        }
        AttemptEvent::Approved(side) => Event::Approved { channel: side.channel(), provider_ref: provider_ref(side) },
        AttemptEvent::Declined(side) => {
            Event::Declined { channel: side.channel(), code: "no".to_owned(), provider_ref: Some(provider_ref(side)) }
        }
        AttemptEvent::Unknown { dispatch_no } => Event::Unknown { dispatch_no },
        AttemptEvent::NotFound { primary, backup } => {
            let late = NOW + TimeDelta::seconds(60);
            let mut at = Intents::default();
            for (asked, channel) in [(primary, Channel::Primary), (backup, Channel::Backup)] {
                if asked {
                    at = at.with(channel, late);
                }
            }
            Event::NotFound { at, settle: SETTLE }
        }
        AttemptEvent::Unanswered => Event::Unanswered,
        AttemptEvent::Fence => Event::Fence,
        AttemptEvent::Defer => Event::Defer,
    }
}
