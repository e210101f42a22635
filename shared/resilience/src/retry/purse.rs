//! The purse: the retries that are left for a whole chain of calls, wherever in it they are made.
//!
//! It travels. Whoever calls sends all that is left (`x-retry-budget`), and the answer says what came back
//! (`x-retry-left`). So only the hop next to a failure retries: the hops above find the purse spent, and the chain's
//! total is bounded by what was in it at first. No answer means that nothing came back, since the callee may have
//! spent it all. A request that certainly never left took nothing with it.
//!
//! A hop that failed *because* a callee of its own failed, and could not or may not try that one again, hands nothing
//! back, whatever is left: it stood next to the failure and had its chance. Otherwise each hop above would add its own
//! fifth, and three hops would make 1.7 times the calls out of three budgets of 1.2. A hop that fails by itself (its
//! bulkhead was full, its database gone) hands everything back: there, the caller is the one who stands next to it.
//!
//! Several calls of one request may run at the same time: the first takes the purse with it, the others go without.

use std::sync::Arc;

use crate::sync::{AtomicU32, Ordering::Relaxed};

/// The purse of one request; clones share it.
#[derive(Debug, Clone)]
pub struct Purse(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    left: AtomicU32,
    /// How often a retry was wanted here and not made.
    forfeits: AtomicU32,
}

/// What went out with one try. Dropped without a word, it is gone.
#[derive(Debug)]
#[must_use = "what was lent is lost unless the answer says otherwise"]
pub struct Loan {
    purse: Purse,
    amount: u32,
}

impl Purse {
    #[must_use]
    pub fn new(retries: u32) -> Self {
        Self(Arc::new(Inside { left: AtomicU32::new(retries), forfeits: AtomicU32::new(0) }))
    }

    /// The purse of a request that arrived with `header`: `full` where the caller said nothing, and never more than
    /// that. What cannot be read is an empty purse: doubt does not add load.
    #[must_use]
    pub fn of_request(header: Option<&str>, full: u32) -> Self {
        Self::new(header.map_or(full, |text| parse(text).min(full)))
    }

    #[must_use]
    pub fn left(&self) -> u32 {
        self.0.left.load(Relaxed)
    }

    /// Takes one retry out, if there is one.
    pub fn spend(&self) -> bool {
        self.0.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Everything that is left goes out with a try.
    pub fn lend(&self) -> Loan {
        Loan { purse: self.clone(), amount: self.0.left.swap(0, Relaxed) }
    }

    /// What goes back with the answer to this request (`x-retry-left`).
    #[must_use]
    pub fn handed_back(&self, succeeded: bool) -> u32 {
        if succeeded || self.0.forfeits.load(Relaxed) == 0 { self.left() } else { 0 }
    }

    pub(super) fn forfeit(&self) {
        self.0.forfeits.fetch_add(1, Relaxed);
    }

    pub(super) fn put_back(&self, retries: u32) {
        // The sum never exceeds what was in at first, so this cannot overflow.
        self.0.left.fetch_add(retries, Relaxed);
    }
}

impl Loan {
    /// What the callee is told that it may spend.
    #[must_use]
    pub const fn amount(&self) -> u32 {
        self.amount
    }

    /// There was an answer, with `x-retry-left` or without. A callee cannot return more than it was lent.
    pub fn answered(self, header: Option<&str>) {
        self.returned(header.map_or(0, parse));
    }

    /// There was an answer, and so much came back.
    pub fn returned(self, left: u32) {
        self.purse.put_back(left.min(self.amount));
    }

    /// The request never left this process, so nobody can have spent anything.
    pub fn not_sent(self) {
        let amount = self.amount;
        self.returned(amount);
    }
}

fn parse(text: &str) -> u32 {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Digits that do not fit are a large number.
    if digits { text.parse().unwrap_or(u32::MAX) } else { 0 }
}
