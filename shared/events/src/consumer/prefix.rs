//! Up to which offset everything took effect, when messages of one partition end in another order than they came in.
//!
//! Problem: an offset that is stored promises that everything before it is done. With several messages in hand, the
//! one that ends first need not be the first.
//!
//! Rule: only the end of the contiguous prefix of ended messages is ever given out. Offsets may have gaps (compaction,
//! transactions, what the broker dropped), so what counts is the order in which messages were begun.

use std::collections::VecDeque;

/// The messages of one partition that were begun and are not yet behind the prefix.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    open: VecDeque<Begun>,
}

#[derive(Debug)]
struct Begun {
    offset: i64,
    ended: bool,
}

/// The prefix has grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Advanced {
    /// Everything before this offset took effect.
    pub(super) next: i64,
    /// So many messages are behind it that were not before.
    pub(super) messages: usize,
}

impl Prefix {
    /// False, and nothing is begun: `offset` is not behind all that are open, so the partition began anew.
    pub(super) fn begin(&mut self, offset: i64) -> bool {
        if self.open.back().is_some_and(|last| offset <= last.offset) {
            return false;
        }
        self.open.push_back(Begun { offset, ended: false });
        true
    }

    /// The last message that was begun, unless the prefix has passed it.
    pub(super) fn last(&self) -> Option<i64> {
        self.open.back().map(|begun| begun.offset)
    }

    /// The message took effect, or is a dead letter.
    pub(super) fn end(&mut self, offset: i64) -> Option<Advanced> {
        let at = self.open.binary_search_by_key(&offset, |begun| begun.offset).ok()?;
        self.open[at].ended = true;
        let mut advanced = None;
        while let Some(first) = self.open.pop_front_if(|first| first.ended) {
            let messages = advanced.map_or(0, |so_far: Advanced| so_far.messages) + 1;
            advanced = Some(Advanced { next: first.offset + 1, messages });
        }
        advanced
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_prefix_waits_for_the_slowest_and_then_takes_all_that_ended_behind_it() {
        let mut prefix = Prefix::default();
        for offset in [7, 8, 11] {
            assert!(prefix.begin(offset));
        }
        assert_eq!(prefix.end(8), None);
        assert_eq!(prefix.end(11), None);
        assert_eq!(prefix.end(7), Some(Advanced { next: 12, messages: 3 }));
        assert_eq!(prefix.end(7), None);
    }

    #[test]
    fn an_offset_that_is_not_behind_all_others_is_not_begun() {
        let mut prefix = Prefix::default();
        assert!(prefix.begin(5));
        assert!(!prefix.begin(5));
        assert!(!prefix.begin(0));
        assert_eq!(prefix.end(5), Some(Advanced { next: 6, messages: 1 }));
        assert!(prefix.begin(0));
    }

    proptest! {
        /// Begins and ends in any order, with gaps; a crash could come after each step.
        #[test]
        fn no_message_in_front_of_the_prefix_is_ever_unfinished_and_none_is_left_out(
            steps in prop::collection::vec((any::<bool>(), 1..4i64, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut prefix = Prefix::default();
            let (mut last, mut stored, mut passed) = (0, 0, 0);
            let (mut begun, mut unfinished) = (0usize, BTreeSet::new());
            for (begins, gap, which) in steps {
                if begins {
                    last += gap;
                    prop_assert!(prefix.begin(last));
                    unfinished.insert(last);
                    begun += 1;
                } else if !unfinished.is_empty() {
                    let ending = *unfinished.iter().nth(which.index(unfinished.len())).unwrap();
                    unfinished.remove(&ending);
                    if let Some(advanced) = prefix.end(ending) {
                        prop_assert!(advanced.next > stored);
                        stored = advanced.next;
                        passed += advanced.messages;
                    }
                }
                // Nothing is lost if the next owner begins at what is stored …
                prop_assert!(unfinished.first().is_none_or(|first| *first >= stored));
                // … and nothing that could have been stored was not.
                if unfinished.is_empty() && begun > 0 {
                    prop_assert_eq!((stored, passed), (last + 1, begun));
                }
            }
        }
    }
}
