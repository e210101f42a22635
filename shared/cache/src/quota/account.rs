//! The lease of one key as this replica sees it: what is left, until when, and what was refused. No I/O and no clock.
//!
//! A lease belongs to a window of the server and ends with it; what is left then lapses, so a replica that falls silent
//! costs the others one lease, once a window. The end is reckoned from the moment at which the question was sent,
//! which lies before the server read its clock: nothing is admitted after the window that has paid for it.

use std::time::Duration;

use tokio::time::Instant;

use super::script::{Ask, Reply};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    Taken,
    /// Redis has to be asked.
    Short,
    /// Redis was asked and there was not enough; that will not change sooner.
    Refused(Duration),
}

#[derive(Debug)]
pub(super) struct Account {
    left: u32,
    window: u64,
    ends: Instant,
    /// What Redis had after the last lease.
    behind: u32,
    refused: Option<Refusal>,
    /// The last lease's wanted size, and what was used since it was asked for.
    size: u32,
    used: u64,
    since: Instant,
}

/// Holds for this weight and all above it.
#[derive(Debug, Clone, Copy)]
struct Refusal {
    weight: u32,
    until: Instant,
}

/// How large leases are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizing {
    pub cap: u32,
    pub adaptive: bool,
    pub lease_for: Duration,
}

impl Account {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: 0, window: 0, ends: now, behind: 0, refused: None, size: 1, used: 0, since: now }
    }

    pub(super) fn take(&mut self, now: Instant, weight: u32) -> Take {
        self.expire(now);
        if let Some(left) = self.left.checked_sub(weight) {
            self.left = left;
            self.used += u64::from(weight);
            return Take::Taken;
        }
        match self.refused {
            Some(refusal) if weight >= refusal.weight && now < refusal.until => Take::Refused(refusal.until - now),
            _ => Take::Short,
        }
    }

    /// The question for a request of this weight, while requests of `waiting` in all stand behind it. Leases at most
    /// double from one to the next, so that two requests close together are not taken for a flood.
    pub(super) fn ask(&mut self, now: Instant, weight: u32, waiting: u64, sizing: Sizing) -> Ask {
        self.expire(now);
        let wanted = if sizing.adaptive {
            let elapsed = now.saturating_duration_since(self.since).as_micros().max(1);
            let rate = u128::from(self.used) * sizing.lease_for.as_micros();
            let by_rate = u32::try_from(rate.div_ceil(elapsed)).unwrap_or(u32::MAX).min(self.size.saturating_mul(2));
            by_rate.max(u32::try_from(waiting).unwrap_or(u32::MAX)).clamp(1, sizing.cap)
        } else {
            sizing.cap
        };
        (self.size, self.used, self.since) = (wanted, 0, now);
        Ask { weight, wanted, left: self.left, window: self.window }
    }

    /// A refusal is remembered for `hold` at least, so that a used-up quota does not cost a round trip for every unit
    /// that becomes free; never into the next window.
    pub(super) fn answered(&mut self, asked_at: Instant, ask: Ask, reply: Reply, hold: Duration) {
        if reply.window != self.window {
            self.left = 0;
        }
        let window_left = Duration::from_micros(reply.window_left_us);
        self.left = self.left.saturating_add(reply.granted);
        self.window = reply.window;
        self.ends = asked_at + window_left;
        self.behind = reply.remaining;
        self.refused = (reply.wait_us > 0).then(|| {
            let wait = Duration::from_micros(reply.wait_us).max(hold.min(window_left));
            Refusal { weight: ask.weight, until: asked_at + wait }
        });
    }

    /// The limits have changed, so Redis may think otherwise.
    pub(super) fn forget_refusal(&mut self) {
        self.refused = None;
    }

    /// What this replica knows to be left for everybody.
    pub(super) fn remaining(&self) -> u32 {
        self.left.saturating_add(self.behind)
    }

    pub(super) fn resets_in(&self, now: Instant) -> Duration {
        self.ends.saturating_duration_since(now)
    }

    fn expire(&mut self, now: Instant) {
        if now >= self.ends {
            self.left = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const WIDTH_US: u64 = 1_000_000;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn sizing(cap: u32) -> Sizing {
        Sizing { cap, adaptive: true, lease_for: us(100_000) }
    }

    /// What the script does with a fixed window, on a clock of our own.
    #[derive(Default)]
    struct Server {
        window: u64,
        current: u32,
    }

    impl Server {
        fn lease(&mut self, at_us: u64, limit: u32, ask: Ask) -> Reply {
            let window = at_us / WIDTH_US;
            if window != self.window {
                (self.window, self.current) = (window, 0);
            }
            let window_left_us = (window + 1) * WIDTH_US - at_us;
            let need = if ask.window == window { ask.weight.saturating_sub(ask.left) } else { ask.weight };
            let free = limit - self.current;
            let granted = if free >= need { ask.wanted.max(need).min(free) } else { 0 };
            self.current += granted;
            let wait_us = if free >= need { 0 } else { window_left_us };
            Reply { granted, window, window_left_us, remaining: limit - self.current, wait_us, replicas: 2 }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_serves_many_and_ends_with_its_window() {
        let now = Instant::now();
        let mut account = Account::new(now);
        assert_eq!(account.take(now, 1), Take::Short);
        let ask = account.ask(now, 1, 1, Sizing { adaptive: false, ..sizing(10) });
        assert_eq!(ask.wanted, 10);
        let reply = Server::default().lease(400_000, 100, ask);
        account.answered(now, ask, reply, Duration::ZERO);
        for _ in 0..9 {
            assert_eq!(account.take(now, 1), Take::Taken);
        }
        assert_eq!(account.take(now + us(599_999), 1), Take::Taken);
        account.answered(now, ask, reply, Duration::ZERO);
        assert_eq!(account.take(now + us(600_000), 1), Take::Short, "its window is over");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_serves_a_lighter_request_after_a_heavier_one_was_refused() {
        let now = Instant::now();
        let (mut account, mut server) = (Account::new(now), Server::default());
        let ask = account.ask(now, 3, 3, sizing(10));
        let reply = server.lease(0, 5, ask);
        account.answered(now, ask, reply, Duration::ZERO);
        let ask = account.ask(now, 6, 6, sizing(10));
        let reply = server.lease(0, 5, ask);
        account.answered(now, ask, reply, Duration::ZERO);
        assert_eq!(account.take(now, 6), Take::Refused(us(WIDTH_US)));
        assert_eq!(account.take(now, 3), Take::Taken);
        assert_eq!(account.take(now, 1), Take::Short, "a lighter one was never refused");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_kept_for_a_while_and_not_into_the_next_window() {
        let now = Instant::now();
        let mut account = Account::new(now);
        let ask = account.ask(now, 1, 1, sizing(10));
        let refusal =
            |window_left_us| Reply { granted: 0, window: 1, window_left_us, remaining: 0, wait_us: 5, replicas: 1 };
        account.answered(now, ask, refusal(500_000), us(10_000));
        assert_eq!(account.take(now, 1), Take::Refused(us(10_000)));
        account.answered(now, ask, refusal(2_000), us(10_000));
        assert_eq!(account.take(now, 1), Take::Refused(us(2_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn leases_grow_with_the_rate_by_doubling_and_shrink_at_once() {
        let (mut now, mut account) = (Instant::now(), Account::new(Instant::now()));
        let mut sizes = Vec::new();
        for _ in 0..7 {
            let ask = account.ask(now, 1, 1, sizing(50));
            sizes.push(ask.wanted);
            let reply = Reply {
                granted: ask.wanted,
                window: 0,
                window_left_us: WIDTH_US,
                remaining: 0,
                wait_us: 0,
                replicas: 1,
            };
            account.answered(now, ask, reply, Duration::ZERO);
            for _ in 0..ask.wanted {
                // 1 000 a second: a hundred in the time that a lease is for.
                now += us(1_000);
                assert_eq!(account.take(now, 1), Take::Taken);
            }
        }
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 50]);
        assert_eq!(account.ask(now + us(5_000_000), 1, 1, sizing(50)).wanted, 1);
        assert_eq!(account.ask(now + us(5_000_001), 1, 30, sizing(50)).wanted, 30, "thirty are waiting already");
    }

    #[derive(Debug, Clone)]
    struct Step {
        replica: usize,
        after_us: u64,
        weight: u32,
        /// Before and after the server's reading of its clock.
        out_us: u64,
        back_us: u64,
    }

    fn step() -> impl Strategy<Value = Step> {
        (0..3_usize, 0..120_000_u64, 1..6_u32, 0..20_000_u64, 0..20_000_u64).prop_map(
            |(replica, after_us, weight, out_us, back_us)| Step { replica, after_us, weight, out_us, back_us },
        )
    }

    proptest! {
        /// Three replicas, one server, any delays: no window admits more than the limit, no replica holds more than
        /// its part of the lease in advance, and nobody is refused whom the server could have served.
        #[test]
        fn the_replicas_never_admit_more_than_the_limit_in_a_window_of_the_server(
            steps in prop::collection::vec(step(), 1..400),
            limit in 6..60_u32,
            cap in 1..10_u32,
            adaptive in any::<bool>(),
        ) {
            let start = Instant::now();
            let sizing = Sizing { adaptive, ..sizing(cap) };
            let mut server = Server::default();
            let mut accounts: Vec<_> = (0..3).map(|_| Account::new(start)).collect();
            let mut admitted: HashMap<u64, u32> = HashMap::new();
            let mut now_us = 0;
            for step in steps {
                now_us += step.after_us;
                let account = &mut accounts[step.replica];
                let mut take = account.take(start + us(now_us), step.weight);
                if take == Take::Short {
                    let asked_at = start + us(now_us);
                    let ask = account.ask(asked_at, step.weight, u64::from(step.weight), sizing);
                    now_us += step.out_us;
                    let reply = server.lease(now_us, limit, ask);
                    now_us += step.back_us;
                    account.answered(asked_at, ask, reply, Duration::ZERO);
                    prop_assert!(account.left <= cap.max(step.weight) + ask.left);
                    take = account.take(start + us(now_us), step.weight);
                    if let Take::Refused(_) = take {
                        prop_assert_eq!(reply.granted, 0);
                    }
                }
                if take == Take::Taken {
                    *admitted.entry(now_us / WIDTH_US).or_default() += step.weight;
                    prop_assert!(account.left < cap.max(step.weight));
                }
            }
            for (window, admitted) in admitted {
                prop_assert!(admitted <= limit, "{} in window {}", admitted, window);
            }
        }
    }
}
