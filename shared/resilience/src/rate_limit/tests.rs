use std::{
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use proptest::prelude::*;
use tokio::time::{Instant, advance};

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Runs on a clock that moves only when it is told to.
fn paused<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test)
}

fn limiter(config: LimiterConfig) -> Limiter {
    Limiter::with_clock(config, Clock::tokio()).unwrap()
}

fn token_bucket(per_second: f64, burst: u32) -> LimiterConfig {
    LimiterConfig::TokenBucket(Quota::new(per_second, burst))
}

fn leaky_bucket(per_second: f64, max_wait: Duration) -> LimiterConfig {
    LimiterConfig::LeakyBucket(LeakyBucketConfig { per_second, max_wait })
}

fn sliding_window(limit: u32, window: Duration) -> LimiterConfig {
    LimiterConfig::SlidingWindow(SlidingWindowConfig { limit, window })
}

fn fixed_window(limit: u32, window: Duration) -> LimiterConfig {
    LimiterConfig::FixedWindow(FixedWindowConfig { limit, window })
}

fn weight(weight: u32) -> NonZeroU32 {
    NonZeroU32::new(weight).unwrap()
}

fn admitted_now(limiter: &Limiter, attempts: u32) -> u32 {
    (0..attempts).map(|_| u32::from(limiter.check().is_ok())).sum()
}

/// Any limiter, and the slope and the burst of the line that it must stay below.
fn any_limiter() -> impl Strategy<Value = (LimiterConfig, f64, u32)> {
    let window = 1_u64..3_000;
    prop_oneof![
        (0.5_f64..2_000.0, 1_u32..60).prop_map(|(rate, burst)| (token_bucket(rate, burst), rate, burst)),
        (0.5_f64..2_000.0).prop_map(|rate| (leaky_bucket(rate, Duration::ZERO), rate, 1)),
        (1_u32..60, window.clone()).prop_map(|(limit, window)| {
            (sliding_window(limit, Duration::from_millis(window)), f64::from(limit) / window as f64 * 1e3, limit)
        }),
        // Its edges cost it a burst more.
        (1_u32..60, window).prop_map(|(limit, window)| {
            (fixed_window(limit, Duration::from_millis(window)), f64::from(limit) / window as f64 * 1e3, 2 * limit)
        }),
    ]
}

/// Two sets of figures for the same kind.
fn any_change() -> impl Strategy<Value = (LimiterConfig, LimiterConfig)> {
    let rate = || 0.5_f64..2_000.0;
    let window = || (1_u64..3_000).prop_map(Duration::from_millis);
    fn twice<S: Strategy + Clone>(one: S) -> impl Strategy<Value = (S::Value, S::Value)> {
        (one.clone(), one)
    }
    prop_oneof![
        twice((rate(), 1_u32..60).prop_map(|(rate, burst)| token_bucket(rate, burst))),
        twice(rate().prop_map(|rate| leaky_bucket(rate, Duration::ZERO))),
        twice((1_u32..60, window()).prop_map(|(limit, window)| sliding_window(limit, window))),
        twice((1_u32..60, window()).prop_map(|(limit, window)| fixed_window(limit, window))),
    ]
}

/// Gaps before arrivals, nanoseconds: crowds, trickles and rests; and the arrivals' weights.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![
        4 => Just(0_u64),
        3 => 1_u64..5_000_000,
        2 => 1_000_000_u64..800_000_000,
        1 => 500_000_000_u64..7_000_000_000,
    ];
    let weight = prop_oneof![3 => Just(1_u32), 1 => 1_u32..8];
    prop::collection::vec((gap, weight), 1..250)
}

proptest! {
    #[test]
    fn over_any_window_no_more_is_admitted_than_the_quota_and_the_burst(
        (config, rate, burst) in any_limiter(),
        arrivals in arrivals(),
    ) {
        let admissions = paused(async {
            let limiter = limiter(config);
            let start = Instant::now();
            let mut admissions = Vec::new();
            for (gap, n) in arrivals {
                advance(Duration::from_nanos(gap)).await;
                if limiter.check_n(weight(n)).is_ok() {
                    admissions.push((start.elapsed().as_secs_f64(), n));
                }
            }
            admissions
        });
        for from in 0..admissions.len() {
            let mut sum = 0;
            for &(at, n) in &admissions[from..] {
                sum += n;
                let window = at - admissions[from].0;
                prop_assert!(f64::from(sum) <= rate * window + f64::from(burst) + 1e-6, "{sum} in {window} s");
            }
        }
    }

    #[test]
    fn who_comes_back_when_told_is_admitted_and_not_a_nanosecond_before(
        (config, ..) in any_limiter(),
        arrivals in arrivals(),
        n in 1_u32..8,
    ) {
        paused(async {
            let limiter = limiter(config);
            for (gap, n) in arrivals {
                advance(Duration::from_nanos(gap)).await;
                let _ = limiter.check_n(weight(n));
            }
            match limiter.check_n(weight(n)) {
                Err(Refused::Limited(limited)) => {
                    prop_assert!(limited.remaining < n, "{limited:?} would have had room");
                    prop_assert!(limited.reset <= limited.retry_after);
                    advance(limited.retry_after.saturating_sub(Duration::from_nanos(1))).await;
                    prop_assert!(limiter.check_n(weight(n)).is_err(), "{:?} too long", limited.retry_after);
                    advance(Duration::from_nanos(1)).await;
                    prop_assert!(limiter.check_n(weight(n)).is_ok(), "{:?} too short", limited.retry_after);
                }
                Err(Refused::Exceeds(exceeds)) => prop_assert!(n > exceeds.limit),
                Ok(admitted) => prop_assert!(admitted.remaining <= admitted.limit - n),
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_change_of_the_figures_gives_no_burst_to_who_has_spent_theirs_and_locks_nobody_out(
        (before, after) in any_change(),
    ) {
        paused(async {
            let limiter = limiter(before);
            advance(SECOND * 10).await;
            while limiter.check().is_ok() {}
            prop_assert!(limiter.reconfigure(after).unwrap());
            if matches!(after, LimiterConfig::TokenBucket(_)) {
                prop_assert!(limiter.check().is_err(), "an empty bucket stays one");
            }
            if let Err(limited) = limiter.check() {
                // What was promised under the old figures, and one turn under the new ones.
                let LimiterSnapshot { limit, window, .. } = limiter.snapshot();
                let turn = match after {
                    LimiterConfig::TokenBucket(_) => window / limit + MS,
                    LimiterConfig::LeakyBucket(_) => SECOND * 2 + MS,
                    _ => window * 2,
                };
                prop_assert!(limited.retry_after <= turn, "{:?} > {turn:?}", limited.retry_after);
                advance(limited.retry_after).await;
                prop_assert!(limiter.check().is_ok());
            }
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn across_an_edge_the_fixed_window_admits_twice_its_limit_and_the_sliding_window_refuses_it() {
    let (fixed, sliding) = (limiter(fixed_window(100, SECOND)), limiter(sliding_window(100, SECOND)));
    let mut admitted = (0, 0);
    for just_before_and_just_after in [999 * MS, 2 * MS] {
        advance(just_before_and_just_after).await;
        admitted.0 += admitted_now(&fixed, 200);
        admitted.1 += admitted_now(&sliding, 200);
    }
    assert_eq!(admitted, (200, 100), "(fixed, sliding) within 2 ms");
}

#[test]
fn threads_that_come_at_once_are_never_admitted_beyond_the_limit() {
    for config in [
        token_bucket(0.01, 100),
        leaky_bucket(0.01, Duration::ZERO),
        sliding_window(100, SECOND * 3_600),
        fixed_window(100, SECOND * 3_600),
    ] {
        let (limiter, together, admitted) = (limiter(config), Barrier::new(8), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    admitted.fetch_add(admitted_now(&limiter, 500), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(admitted.into_inner(), limiter.snapshot().limit, "{config:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_heavier_than_the_limit_is_refused_for_good_and_takes_nothing() {
    for config in [token_bucket(10.0, 5), sliding_window(5, SECOND), fixed_window(5, SECOND)] {
        let limiter = limiter(config);
        let exceeds = Exceeds { weight: weight(6), limit: 5 };
        assert_eq!(limiter.check_n(weight(6)), Err(Refused::Exceeds(exceeds)), "{config:?}");
        assert_eq!(
            limiter.check_n(NonZeroU32::MAX),
            Err(Refused::Exceeds(Exceeds { weight: NonZeroU32::MAX, limit: 5 }))
        );
        assert_eq!(limiter.check_n(weight(5)).map(|admitted| admitted.remaining), Ok(0), "{config:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answers_carry_what_the_rate_limit_headers_need() {
    let bucket = limiter(token_bucket(10.0, 20));
    let admitted = bucket.check_n(weight(15)).unwrap();
    assert_eq!(admitted, Admitted { limit: 20, window: 2 * SECOND, remaining: 5, reset: 1_500 * MS });
    let Err(Refused::Limited(limited)) = bucket.check_n(weight(10)) else { panic!("5 are left") };
    let retry_after = 500 * MS;
    assert_eq!(limited, RateLimited { retry_after, limit: 20, window: 2 * SECOND, remaining: 5, reset: retry_after });

    let window = limiter(fixed_window(3, SECOND));
    advance(400 * MS).await;
    assert_eq!(window.check(), Ok(Admitted { limit: 3, window: SECOND, remaining: 2, reset: 600 * MS }));
}

#[tokio::test(start_paused = true)]
async fn the_kind_is_chosen_by_configuration() {
    for (json, kind, limit) in [
        (r#"{"kind":"token_bucket","per_second":300,"burst":450}"#, "token_bucket", 450),
        (r#"{"kind":"leaky_bucket","per_second":20,"max_wait_ms":200}"#, "leaky_bucket", 5),
        (r#"{"kind":"sliding_window","limit":7,"window_ms":1000}"#, "sliding_window", 7),
        (r#"{"kind":"fixed_window","limit":8,"window_ms":1000}"#, "fixed_window", 8),
    ] {
        let config: LimiterConfig = serde_json::from_str(json).unwrap();
        let snapshot = limiter(config).snapshot();
        assert_eq!((snapshot.kind, snapshot.limit), (kind, limit));
        let written = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<LimiterConfig>(&written).unwrap(), config);
    }
    for unreadable in [
        r#"{"kind":"token_bucket","per_second":300}"#,
        r#"{"kind":"token_bucket","per_second":300,"burst":1,"brust":2}"#,
        r#"{"kind":"bucket","per_second":300,"burst":1}"#,
    ] {
        assert!(serde_json::from_str::<LimiterConfig>(unreadable).is_err(), "{unreadable}");
    }
}

#[test]
fn a_useless_figure_is_refused_by_its_name() {
    for (config, field) in [
        (token_bucket(0.0, 1), "per_second"),
        (token_bucket(-1.0, 1), "per_second"),
        (token_bucket(f64::NAN, 1), "per_second"),
        (token_bucket(f64::INFINITY, 1), "per_second"),
        (token_bucket(1e-300, 1), "burst"),
        (token_bucket(10.0, 0), "burst"),
        (token_bucket(0.001, 1_000), "burst"),
        (leaky_bucket(0.0, MS), "per_second"),
        (leaky_bucket(1.0, SECOND * 100_000), "max_wait_ms"),
        (sliding_window(0, SECOND), "limit"),
        (sliding_window(1, Duration::ZERO), "window_ms"),
        (fixed_window(0, SECOND), "limit"),
        (fixed_window(1, SECOND * 100_000), "window_ms"),
    ] {
        assert_eq!(config.validate().unwrap_err().field, field, "{config:?}");
        assert_eq!(Limiter::new(config).unwrap_err().field, field, "{config:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_kind_is_left_to_the_caller_and_a_bad_figure_changes_nothing() {
    let limiter = limiter(token_bucket(10.0, 5));
    assert_eq!(limiter.reconfigure(fixed_window(1, SECOND)), Ok(false));
    assert!(limiter.reconfigure(token_bucket(10.0, 0)).is_err());
    assert_eq!(admitted_now(&limiter, 10), 5);
}
