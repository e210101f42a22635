//! What the protocol rests on, each to be left out for once. The traces are counterexamples against earlier wordings of
//! the protocol; `docs/model.md` lists them.

use crate::{
    setting::Setting,
    worlds::{
        ALONE, CANCELLED, CONTRADICTED, COUPON, DEFERRED, LATE, LYING, OVERLAP, PAUSED, REFUSED, RETRY, TWICE,
        TWO_CHANNELS, UNIT,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safeguard {
    /// A proven charge outranks a fence.
    ApprovedFromFenced,
    LedgerJob,
    LateApprovalRefunds,
    FenceCoversNotDispatched,
    FenceSparesUnknown,
    ClaimFixesOrder,
    AttemptFencing,
    /// Running out of time after the intent leaves the order pending.
    PendingAfterIntent,
    KeyKeptAfterDispatch,
    KeysOutliveOrders,
    /// A `PUT` never dispatches a row that exists, and order fences before it rejects.
    RefusedOnceAndForAll,
    WorstOfTries,
    IntentBeforeSend,
    AskEveryChannel,
    ExtraChargeRefunded,
    VersionsGateNoCommand,
    OwnIdPerHop,
    Sweeper,
    EverySettlementTells,
    CancelIsState,
    NoCommitAfterRelease,
    FinalOrdersWalked,
    FullRefundIsTheRest,
    CompensationAfterConfirmation,
    Tombstones,
    DeadOrdersAlwaysRelease,
    ReleaseBeforeRetry,
    NotSoldOutByItself,
    ReleaseAfterStockRefused,
    PendingMaxAge,
    DuplicatesAreNotNever,
    /// A charge that comes after another word is told again until order asks for the money.
    ContradictionsRepeated,
}

/// A safeguard that is missed, the trace that taught it, and a world in which that shows.
#[derive(Debug, Clone, Copy)]
pub struct Mutation {
    pub trace: u8,
    /// Mostly one.
    pub without: &'static [Safeguard],
    pub setting: Setting,
}

const fn mutation(trace: u8, without: &'static [Safeguard], setting: Setting) -> Mutation {
    Mutation { trace, without, setting }
}

pub const MUTATIONS: [Mutation; 30] = {
    use Safeguard as S;
    [
        mutation(1, &[S::ApprovedFromFenced], LATE),
        mutation(1, &[S::LedgerJob], LATE),
        mutation(1, &[S::LateApprovalRefunds], LATE),
        mutation(2, &[S::ApprovedFromFenced], PAUSED),
        mutation(3, &[S::FenceCoversNotDispatched], DEFERRED),
        mutation(4, &[S::FenceSparesUnknown], CANCELLED),
        mutation(5, &[S::ClaimFixesOrder], OVERLAP),
        mutation(5, &[S::AttemptFencing], OVERLAP),
        mutation(6, &[S::PendingAfterIntent], TWICE),
        mutation(7, &[S::KeyKeptAfterDispatch], TWICE),
        mutation(8, &[S::KeysOutliveOrders], TWICE),
        mutation(9, &[S::RefusedOnceAndForAll], REFUSED),
        mutation(10, &[S::WorstOfTries], TWO_CHANNELS),
        mutation(11, &[S::IntentBeforeSend], TWO_CHANNELS),
        mutation(12, &[S::AskEveryChannel], TWO_CHANNELS),
        mutation(13, &[S::ExtraChargeRefunded], LYING),
        mutation(14, &[S::VersionsGateNoCommand], CANCELLED),
        mutation(16, &[S::Sweeper], ALONE),
        mutation(17, &[S::EverySettlementTells], LATE),
        mutation(18, &[S::CancelIsState], CANCELLED),
        mutation(19, &[S::NoCommitAfterRelease], CANCELLED),
        mutation(20, &[S::FinalOrdersWalked], ALONE),
        mutation(21, &[S::FullRefundIsTheRest], COUPON),
        mutation(23, &[S::Tombstones], COUPON),
        mutation(23, &[S::DeadOrdersAlwaysRelease], COUPON),
        mutation(24, &[S::ReleaseBeforeRetry, S::NotSoldOutByItself], RETRY),
        mutation(25, &[S::ReleaseAfterStockRefused], UNIT),
        mutation(26, &[S::PendingMaxAge], ALONE),
        mutation(27, &[S::DuplicatesAreNotNever], LATE),
        // Not of the list: this model found it.
        mutation(28, &[S::ContradictionsRepeated], CONTRADICTED),
    ]
};

/// Traces that this product would survive without the safeguard, since another one is there as well.
pub const NOT_NEEDED_ALONE: [Mutation; 2] = [
    // A coupon that is settled while the payment is pending: order says "not yet", and is told again.
    mutation(22, &[Safeguard::CompensationAfterConfirmation], COUPON),
    // And where such a "not yet" is swallowed, order asks anew once it is confirmed.
    mutation(15, &[Safeguard::OwnIdPerHop, Safeguard::CompensationAfterConfirmation], COUPON),
];
