//! What all guards together cost a call out that is ready at once: `cargo bench -p chassis --bench outbound`.
//!
//! Beside them, in the same run, what others charge for a part of it. Theirs do less: raw failsafe knows no slow calls,
//! no generations and no ramp, governor is a limiter alone, and so is tower's.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has no figure")]

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use chassis::{downstream::Guards, signals::Signals};
use divan::{Bencher, black_box};
use failsafe::CircuitBreaker;
use resilience::{
    Deadline,
    rate_limit::{LimiterConfig, Quota},
};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

const THREADS: [usize; 2] = [1, 2];

fn main() {
    divan::main();
}

/// The rule for payment, but for a limit that a bench would reach.
fn guards() -> Guards {
    let mut rule = rules::Rules::default().downstream.payment;
    rule.limit = LimiterConfig::TokenBucket(Quota::new(1_000_000.0, 50_000_000));
    Guards::new("bench", &rule, Signals::default()).unwrap()
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(3_600))
}

/// A future that is ready at once, without a runtime around it.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

#[divan::bench(threads = THREADS, sample_size = 1_000)]
fn the_whole_outbound_guard_around_a_ready_call(bencher: Bencher<'_, '_>) {
    let (guards, deadline) = (guards(), deadline());
    bencher.bench(|| {
        at_once(async {
            let lease = guards.admit(deadline).await.ok().unwrap();
            guards.first_try(&lease);
            black_box(std::future::ready(1).await);
            lease.success();
        });
    });
}

#[divan::bench(threads = THREADS, sample_size = 1_000)]
fn the_whole_outbound_guard_refusing_for_an_open_breaker(bencher: Bencher<'_, '_>) {
    let (guards, deadline) = (guards(), deadline());
    while let Ok(lease) = at_once(guards.admit(deadline)) {
        lease.failure();
    }
    bencher.bench(|| black_box(at_once(guards.admit(deadline)).is_err()));
}

#[divan::bench(threads = THREADS, sample_size = 1_000)]
fn raw_failsafe(bencher: Bencher<'_, '_>) {
    let breaker = failsafe::Config::new().build();
    bencher.bench(|| breaker.call(|| Ok::<_, ()>(black_box(1))).is_ok());
}

#[divan::bench(threads = THREADS, sample_size = 1_000)]
fn raw_governor(bencher: Bencher<'_, '_>) {
    let plenty = governor::Quota::per_second(std::num::NonZeroU32::MAX);
    let limiter = governor::RateLimiter::direct_with_clock(plenty, governor::clock::QuantaClock::default());
    bencher.bench(|| limiter.check().is_ok());
}

/// It needs `&mut`: each clone has a quota of its own.
#[divan::bench(sample_size = 1_000)]
fn towers_rate_limit(bencher: Bencher<'_, '_>) {
    use tower::{Service, limit::RateLimit, limit::rate::Rate, service_fn};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let ready = service_fn(|(): ()| std::future::ready(Ok::<_, std::convert::Infallible>(())));
    let mut service = RateLimit::new(ready, Rate::new(u64::MAX, Duration::from_secs(60)));
    bencher.bench_local(|| {
        let mut context = Context::from_waker(Waker::noop());
        let is_ready = <_ as Service<()>>::poll_ready(&mut service, &mut context).is_ready();
        let _ready = black_box(service.call(()));
        is_ready
    });
}
