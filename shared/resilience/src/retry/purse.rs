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

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// The purse of one request; clones share it.
#[derive(Debug, Clone)]
pub struct Purse(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    left: AtomicU32,
    /// A retry was wanted here and not made.
    forfeited: AtomicBool,
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
        Self(Arc::new(Inside { left: AtomicU32::new(retries), forfeited: AtomicBool::new(false) }))
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
        if succeeded || !self.0.forfeited.load(Relaxed) { self.left() } else { 0 }
    }

    pub(super) fn forfeit(&self) {
        self.0.forfeited.store(true, Relaxed);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_caller_can_lower_the_purse_and_not_raise_it() {
        assert_eq!(Purse::of_request(None, 3).left(), 3);
        assert_eq!(Purse::of_request(Some("1"), 3).left(), 1);
        assert_eq!(Purse::of_request(Some("0"), 3).left(), 0);
        assert_eq!(Purse::of_request(Some("9"), 3).left(), 3);
        assert_eq!(Purse::of_request(Some("99999999999999"), 3).left(), 3);
        for unreadable in ["", "-1", "+2", "two", " 2", "1.5"] {
            assert_eq!(Purse::of_request(Some(unreadable), 3).left(), 0, "{unreadable:?}");
        }
    }

    #[test]
    fn a_try_takes_everything_and_the_answer_brings_the_rest_back() {
        let purse = Purse::new(3);
        let loan = purse.lend();
        assert_eq!((loan.amount(), purse.left()), (3, 0));
        loan.answered(Some("2"));
        assert_eq!(purse.left(), 2);
    }

    #[test]
    fn no_answer_means_that_nothing_came_back() {
        let purse = Purse::new(3);
        drop(purse.lend());
        assert_eq!(purse.left(), 0);
        let purse = Purse::new(3);
        purse.lend().answered(None);
        assert_eq!(purse.left(), 0);
    }

    #[test]
    fn a_request_that_never_left_took_nothing_with_it() {
        let purse = Purse::new(3);
        purse.lend().not_sent();
        assert_eq!(purse.left(), 3);
    }

    #[test]
    fn calls_side_by_side_do_not_multiply_the_purse() {
        let purse = Purse::new(3);
        let first = purse.lend();
        let second = purse.lend();
        assert_eq!((first.amount(), second.amount()), (3, 0));
        second.returned(5);
        first.returned(1);
        assert_eq!(purse.left(), 1);
    }

    #[test]
    fn a_hop_that_had_its_chance_and_failed_hands_nothing_back() {
        let purse = Purse::new(3);
        assert_eq!(purse.handed_back(false), 3, "it failed by itself");
        purse.forfeit();
        assert_eq!(purse.handed_back(false), 0);
        assert_eq!(purse.handed_back(true), 3, "it got round the failure");
    }

    /// What may happen to a purse: a retry, a call that goes out, an answer to the oldest call, a call that is lost.
    #[derive(Debug, Clone)]
    enum Step {
        Spend,
        Lend,
        Answer(u32),
        Lose,
        NotSent,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Spend),
            Just(Step::Lend),
            (0_u32..9).prop_map(Step::Answer),
            Just(Step::Lose),
            Just(Step::NotSent)
        ]
    }

    proptest! {
        #[test]
        fn retries_are_never_made_out_of_nothing(full in 0_u32..5, steps in proptest::collection::vec(any_step(), 0..60)) {
            let purse = Purse::new(full);
            let (mut spent, mut out) = (0, Vec::new());
            for step in steps {
                match step {
                    Step::Spend => spent += u32::from(purse.spend()),
                    Step::Lend => out.push(purse.lend()),
                    Step::Answer(left) => out.pop().into_iter().for_each(|loan| loan.returned(left)),
                    Step::Lose => drop(out.pop()),
                    Step::NotSent => out.pop().into_iter().for_each(Loan::not_sent),
                }
                let lent: u32 = out.iter().map(Loan::amount).sum();
                prop_assert!(spent + lent + purse.left() <= full);
            }
        }
    }
}
