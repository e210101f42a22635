//! What a breaker costs a call, beside raw failsafe: `cargo bench -p resilience --bench breaker`.
//!
//! failsafe's rows do less: no slow calls, no generations, no probes. `permitted + recorded` is its state machine used
//! as ours is; `call` is the way its own documentation shows.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has no figure")]

use std::{future::Future as _, time::Duration};

use divan::{Bencher, black_box};
use failsafe::{CircuitBreaker, Config, StateMachine, backoff, failure_policy};
use resilience::{
    Deadline,
    breaker::{Breaker, BreakerConfig, Window},
    bulkhead::{Bulkhead, BulkheadConfig},
};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

const THREADS: [usize; 2] = [1, 2];

fn main() {
    divan::main();
}

fn breaker(window: Window) -> Breaker {
    Breaker::new(BreakerConfig { window, ..BreakerConfig::default() }, 7).unwrap()
}

fn open() -> Breaker {
    let breaker = breaker(Window::Calls(100));
    while let Ok(permit) = breaker.acquire() {
        permit.failure();
    }
    breaker
}

#[divan::bench(threads = THREADS)]
fn acquire_and_record_in_a_count_window(bencher: Bencher<'_, '_>) {
    let breaker = breaker(Window::Calls(100));
    bencher.bench(|| breaker.acquire().unwrap().success());
}

#[divan::bench(threads = THREADS)]
fn acquire_and_record_in_a_time_window(bencher: Bencher<'_, '_>) {
    let breaker = breaker(Window::SpanMs(10_000));
    bencher.bench(|| breaker.acquire().unwrap().success());
}

#[divan::bench(threads = THREADS)]
fn peek_then_acquire_and_record(bencher: Bencher<'_, '_>) {
    let breaker = breaker(Window::Calls(100));
    bencher.bench(|| {
        breaker.peek().unwrap();
        breaker.acquire().unwrap().success();
    });
}

#[divan::bench(threads = THREADS)]
fn refusal_of_an_open_breaker(bencher: Bencher<'_, '_>) {
    let breaker = open();
    bencher.bench(|| black_box(breaker.acquire().is_err()));
}

#[divan::bench(threads = THREADS)]
fn bulkhead_try_acquire_and_return(bencher: Bencher<'_, '_>) {
    let bulkhead = Bulkhead::new(BulkheadConfig::default()).unwrap();
    bencher.bench(|| drop(bulkhead.try_acquire().unwrap()));
}

#[divan::bench]
fn bulkhead_acquire_with_a_deadline_and_return(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    let bulkhead = Bulkhead::new(BulkheadConfig::default()).unwrap();
    let deadline = Deadline::after(Duration::from_secs(3_600));
    bencher.bench_local(|| {
        let ready = std::pin::pin!(bulkhead.acquire(deadline));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        black_box(matches!(ready.poll(&mut context), std::task::Poll::Ready(Ok(_))))
    });
}

#[divan::bench(threads = THREADS)]
fn raw_failsafe_call(bencher: Bencher<'_, '_>) {
    let breaker = Config::new().build();
    bencher.bench(|| breaker.call(|| Ok::<_, ()>(black_box(1))).is_ok());
}

#[divan::bench(threads = THREADS)]
fn raw_failsafe_permitted_and_recorded(bencher: Bencher<'_, '_>) {
    let backoff = backoff::constant(Duration::from_secs(30));
    let policy = failure_policy::success_rate_over_time_window(0.5, 20, Duration::from_secs(30), backoff);
    let machine = StateMachine::new(policy, ());
    bencher.bench(|| {
        black_box(machine.is_call_permitted());
        machine.on_success();
    });
}

#[divan::bench(threads = THREADS)]
fn raw_failsafe_refusal(bencher: Bencher<'_, '_>) {
    let backoff = backoff::constant(Duration::from_secs(3_600));
    let machine = StateMachine::new(failure_policy::consecutive_failures(1, backoff), ());
    machine.on_error();
    bencher.bench(|| black_box(machine.is_call_permitted()));
}
