//! What a check costs, beside raw governor and tower's limiter:
//!
//! ```sh
//! cargo bench -p resilience --bench rate_limit
//! ```
//!
//! Each check is an admitted one, on quotas that never run out, but for those named `refused`. There are 10 000
//! keys, all known, taken in a scattered order, so that the table does not sit in the first cache level.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to report")]

use std::{hint::black_box, num::NonZeroU32, time::Duration};

use divan::{Bencher, counter::ItemsCount};
use governor::{Quota as GovernorQuota, RateLimiter, clock::QuantaClock};
use resilience::rate_limit::{
    FixedWindow, FixedWindowConfig, LeakyBucket, LeakyBucketConfig, PerKey, PerKeyConfig, Quota, SlidingWindow,
    SlidingWindowConfig, Tier, TokenBucket,
};
use uuid::Uuid;

const KEYS: u64 = 10_000;
/// Earns faster than one core can spend.
const PLENTY: Quota = Quota::new(1_000_000.0, 4_000_000_000);

fn main() {
    divan::main();
}

fn scattered(turn: u64) -> u64 {
    turn.wrapping_mul(7_919) % KEYS
}

fn plenty() -> GovernorQuota {
    GovernorQuota::per_second(NonZeroU32::new(1_000_000).unwrap()).allow_burst(NonZeroU32::new(4_000_000_000).unwrap())
}

fn per_key<K: std::hash::Hash + Eq + Ord + Clone + std::fmt::Debug>() -> PerKey<K> {
    let quota = PLENTY;
    PerKey::new(PerKeyConfig {
        default: quota,
        tiers: [].into(),
        overrides: [].into(),
        max_keys: 100_000,
        overflow: quota,
    })
    .unwrap()
}

mod single {
    use super::*;

    #[divan::bench(threads = [1, 2])]
    fn token_bucket(bencher: Bencher<'_, '_>) {
        let limiter = TokenBucket::new(PLENTY).unwrap();
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check().is_ok());
    }

    #[divan::bench]
    fn token_bucket_refused(bencher: Bencher<'_, '_>) {
        let limiter = TokenBucket::new(Quota::new(0.01, 1)).unwrap();
        let _ = limiter.check();
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check().is_err());
    }

    #[divan::bench]
    fn leaky_bucket_refused(bencher: Bencher<'_, '_>) {
        let limiter = LeakyBucket::new(LeakyBucketConfig { per_second: 0.01, max_wait: Duration::ZERO }).unwrap();
        let _ = limiter.check();
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check().is_err());
    }

    #[divan::bench(threads = [1, 2])]
    fn sliding_window(bencher: Bencher<'_, '_>) {
        let window = Duration::from_secs(60);
        let limiter = SlidingWindow::new(SlidingWindowConfig { limit: u32::MAX, window }).unwrap();
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check().is_ok());
    }

    #[divan::bench(threads = [1, 2])]
    fn fixed_window(bencher: Bencher<'_, '_>) {
        let window = Duration::from_secs(60);
        let limiter = FixedWindow::new(FixedWindowConfig { limit: u32::MAX, window }).unwrap();
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check().is_ok());
    }

    #[divan::bench(threads = [1, 2])]
    fn governor_direct(bencher: Bencher<'_, '_>) {
        let limiter = RateLimiter::direct_with_clock(plenty(), QuantaClock::default());
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check().is_ok());
    }

    /// A service whose call is ready at once, under tower's limiter. It needs `&mut`: each clone has a quota of its own.
    #[divan::bench]
    fn tower_rate_limit(bencher: Bencher<'_, '_>) {
        use std::task::{Context, Waker};

        use tower::{Service, limit::RateLimit, limit::rate::Rate, service_fn};

        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let ready = service_fn(|(): ()| std::future::ready(Ok::<_, std::convert::Infallible>(())));
        let mut service = RateLimit::new(ready, Rate::new(u64::MAX, Duration::from_secs(60)));
        bencher.counter(ItemsCount::new(1_u32)).bench_local(|| {
            let mut context = Context::from_waker(Waker::noop());
            let is_ready = <_ as Service<()>>::poll_ready(&mut service, &mut context).is_ready();
            let _ready = black_box(service.call(()));
            is_ready
        });
    }
}

mod keyed {
    use std::{
        cell::Cell,
        sync::atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// A turn for each call, each thread's own and from another place on, so that neither the counter nor the key is
    /// where threads meet.
    fn turns() -> impl Fn() -> u64 {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        thread_local! { static TURN: Cell<u64> = Cell::new(STARTS.fetch_add(3_331, Ordering::Relaxed)); }
        || scattered(TURN.replace(TURN.get() + 1))
    }

    #[divan::bench(threads = [1, 2])]
    fn per_key_u64(bencher: Bencher<'_, '_>) {
        let (limiter, turn) = (per_key::<u64>(), turns());
        (0..KEYS).for_each(|key| assert!(limiter.check(&key, Tier::DEFAULT).is_ok()));
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check(&turn(), Tier::DEFAULT).is_ok());
    }

    #[divan::bench(threads = [1, 2])]
    fn per_key_uuid(bencher: Bencher<'_, '_>) {
        let (limiter, turn) = (per_key::<Uuid>(), turns());
        (0..KEYS).for_each(|key| assert!(limiter.check(&Uuid::from_u64_pair(key, 7), Tier::DEFAULT).is_ok()));
        bencher
            .counter(ItemsCount::new(1_u32))
            .bench(|| limiter.check(&Uuid::from_u64_pair(turn(), 7), Tier::DEFAULT).is_ok());
    }

    #[divan::bench]
    fn per_key_string(bencher: Bencher<'_, '_>) {
        let (limiter, turn) = (per_key::<String>(), turns());
        let keys: Vec<String> = (0..KEYS).map(|key| format!("user-{key:032}")).collect();
        keys.iter().for_each(|key| assert!(limiter.check(key, Tier::DEFAULT).is_ok()));
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check(&keys[turn() as usize], Tier::DEFAULT).is_ok());
    }

    #[divan::bench(threads = [1, 2])]
    fn governor_keyed_u64(bencher: Bencher<'_, '_>) {
        let (limiter, turn) = (RateLimiter::dashmap_with_clock(plenty(), QuantaClock::default()), turns());
        (0..KEYS).for_each(|key| assert!(limiter.check_key(&key).is_ok()));
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check_key(&turn()).is_ok());
    }

    #[divan::bench]
    fn governor_keyed_string(bencher: Bencher<'_, '_>) {
        let (limiter, turn) = (RateLimiter::dashmap_with_clock(plenty(), QuantaClock::default()), turns());
        let keys: Vec<String> = (0..KEYS).map(|key| format!("user-{key:032}")).collect();
        keys.iter().for_each(|key| assert!(limiter.check_key(key).is_ok()));
        bencher.counter(ItemsCount::new(1_u32)).bench(|| limiter.check_key(&keys[turn() as usize]).is_ok());
    }
}
