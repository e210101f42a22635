//! This replica's share of a quota, for when Redis is away: a bucket by the generic cell rate algorithm.
//!
//! It is charged for everything that is admitted, by whatever path. So it has seen the traffic when Redis fails, and a
//! replica that was busy a moment ago does not begin with a full bucket.

use std::time::Duration;

use tokio::time::Instant;

use super::config::QuotaConfig;

/// The rate and the burst of one of so many replicas.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    per_unit: Duration,
    tolerance: Duration,
}

impl Share {
    pub(super) fn of(config: &QuotaConfig, replicas: u32) -> Self {
        let per_unit = config.window_ms.saturating_mul(replicas.max(1)) / config.limit.max(1);
        // One unit always fits.
        Self { per_unit, tolerance: config.local_burst_ms.max(per_unit) }
    }
}

#[derive(Debug)]
pub(super) struct LocalBucket {
    /// The time until which what was admitted has been paid for.
    paid_until: Instant,
}

impl LocalBucket {
    pub(super) fn new(now: Instant) -> Self {
        Self { paid_until: now }
    }

    /// Whether the weight fits, else how long until it does. What is heavier than the whole bucket fits into a full one
    /// and is paid for afterwards, since otherwise it would never fit.
    pub(super) fn fits(&self, now: Instant, weight: u32, share: Share) -> Result<(), Duration> {
        let cost = share.per_unit.saturating_mul(weight);
        let owed = self.paid_until.saturating_duration_since(now).saturating_add(cost);
        match owed.saturating_sub(share.tolerance.max(cost)) {
            Duration::ZERO => Ok(()),
            wait => Err(wait),
        }
    }

    pub(super) fn take(&mut self, now: Instant, weight: u32, share: Share) -> Result<(), Duration> {
        self.fits(now, weight, share)?;
        self.paid_until = self.paid_until.max(now) + share.per_unit.saturating_mul(weight);
        Ok(())
    }

    /// What Redis admitted. Above the share it leaves the bucket empty, not in debt: Redis has accounted for it.
    pub(super) fn charge(&mut self, now: Instant, weight: u32, share: Share) {
        let paid = self.paid_until.max(now) + share.per_unit.saturating_mul(weight);
        self.paid_until = self.paid_until.max(paid.min(now + share.tolerance));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(limit: u32, replicas: u32) -> Share {
        Share::of(&QuotaConfig { limit, ..QuotaConfig::default() }, replicas)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_of_two_admits_half_the_quota_after_the_burst() {
        let (now, share) = (Instant::now(), share(200, 2));
        let mut bucket = LocalBucket::new(now);
        let admitted = |bucket: &mut LocalBucket, at| (0..500).filter(|_| bucket.take(at, 1, share).is_ok()).count();
        assert_eq!(admitted(&mut bucket, now), 10, "a tenth of a second's worth");
        assert_eq!(bucket.fits(now, 1, share), Err(ms(10)));
        assert_eq!(admitted(&mut bucket, now + ms(50)), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn what_redis_admitted_empties_the_bucket_and_leaves_no_debt() {
        let (now, share) = (Instant::now(), share(200, 2));
        let mut bucket = LocalBucket::new(now);
        bucket.charge(now, 4, share);
        assert_eq!(bucket.fits(now, 6, share), Ok(()));
        bucket.charge(now, 1_000, share);
        assert_eq!(bucket.fits(now, 1, share), Err(ms(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_heavier_than_the_bucket_fits_when_it_is_full_and_is_paid_for_afterwards() {
        let (now, share) = (Instant::now(), share(200, 2));
        let mut bucket = LocalBucket::new(now);
        assert_eq!(bucket.take(now, 50, share), Ok(()));
        assert_eq!(bucket.fits(now, 1, share), Err(ms(410)));
        bucket.charge(now, 1, share);
        assert_eq!(bucket.fits(now, 1, share), Err(ms(410)), "a charge never shortens a debt");
        assert_eq!(bucket.fits(now + ms(499), 50, share), Err(ms(1)));
        assert_eq!(bucket.fits(now + ms(500), 50, share), Ok(()));
    }

    proptest! {
        #[test]
        fn over_any_span_no_more_is_admitted_than_the_share_and_one_burst(
            limit in 1..500_u32,
            replicas in 1..6_u32,
            steps in prop::collection::vec((0..50_u64, any::<bool>()), 1..300),
        ) {
            let (start, share) = (Instant::now(), share(limit, replicas));
            let mut bucket = LocalBucket::new(start);
            let mut admitted = Vec::new();
            let mut now = start;
            for (after, by_redis) in steps {
                now += ms(after);
                if by_redis {
                    bucket.charge(now, 1, share);
                } else if bucket.take(now, 1, share).is_ok() {
                    admitted.push(now);
                }
            }
            for (first, from) in admitted.iter().enumerate() {
                for (last, to) in admitted.iter().enumerate().skip(first) {
                    let allowed = (*to - *from + share.tolerance).as_nanos() / share.per_unit.as_nanos();
                    prop_assert!((last - first + 1) as u128 <= allowed);
                }
            }
        }
    }
}
