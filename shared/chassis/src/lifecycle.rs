//! Who may still run, and in which order a process falls silent.
//!
//! Handlers run on the web server's workers, each a runtime of its own that ends with the listener; what must be
//! finished whatever the client does is spawned here, on the main runtime, and waited for at shutdown.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use crate::signals::Signals;

/// Shared by everything in one process (or, in tests, by one application of several in a process).
#[derive(Clone)]
pub struct Lifecycle(Arc<Inner>);

struct Inner {
    main: Handle,
    work: TaskTracker,
    background: TaskTracker,
    stop_background: CancellationToken,
    ready: AtomicBool,
    draining: AtomicBool,
    dead_job: OnceLock<&'static str>,
    in_flight: AtomicUsize,
    signals: Signals,
    gauges: Mutex<Vec<Gauges>>,
}

/// Sets gauges to what they are now.
type Gauges = Box<dyn Fn() + Send + Sync>;

/// The task that a handler waited for panicked; it has been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the task panicked")]
pub struct Panicked;

/// Counts a request from its first byte of work to its answer, on every path.
pub struct InFlight(Arc<Inner>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Lifecycle {
    /// To be called on the main runtime.
    #[must_use]
    pub fn new(main: Handle) -> Self {
        Self(Arc::new(Inner {
            main,
            work: TaskTracker::new(),
            background: TaskTracker::new(),
            stop_background: CancellationToken::new(),
            ready: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            dead_job: OnceLock::new(),
            in_flight: AtomicUsize::new(0),
            signals: Signals::default(),
            gauges: Mutex::default(),
        }))
    }

    /// What the guards of this process know together.
    #[must_use]
    pub fn signals(&self) -> &Signals {
        &self.0.signals
    }

    /// Runs `work` on the main runtime, to its end, even when the caller goes away. It has to bound itself.
    pub fn spawn_work<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.0.work.spawn_on(work.in_current_span(), &self.0.main)
    }

    /// [`Self::spawn_work`], and waits for it.
    pub async fn run<F>(&self, work: F) -> Result<F::Output, Panicked>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn_work(work).await.map_err(|_| Panicked)
    }

    /// Runs a job until shutdown: `job` gets the token that tells it to finish what it has in hand and return.
    pub fn spawn_background<F, Fut>(&self, name: &'static str, job: F)
    where
        F: FnOnce(CancellationToken) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let token = self.0.stop_background.clone();
        let running = job(token.clone());
        let inner = self.0.clone();
        let watched = async move {
            let panicked = tokio::spawn(running).await.is_err();
            if panicked || !token.is_cancelled() {
                tracing::error!(job = name, panicked, "a background job is down until the next start");
                // The first one is enough to know.
                let _ = inner.dead_job.set(name);
            }
        };
        self.0.background.spawn_on(watched, &self.0.main);
    }

    #[must_use]
    pub fn begin_request(&self) -> InFlight {
        self.0.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(self.0.clone())
    }

    /// Has `set` called whenever somebody asks for the metrics: what is a state costs nothing in between.
    pub fn measured_by(&self, set: impl Fn() + Send + Sync + 'static) {
        self.0.gauges.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(set));
    }

    /// Brings all of those up to now.
    pub fn measure(&self) {
        self.0.gauges.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|set| set());
    }

    /// Tasks of the main runtime: a number that only grows is a leak.
    #[must_use]
    pub fn alive_tasks(&self) -> usize {
        self.0.main.metrics().num_alive_tasks()
    }

    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.load(Ordering::Acquire)
    }

    /// Migrations are in, rules are loaded, listeners are up.
    pub fn set_ready(&self) {
        self.0.ready.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Acquire) && !self.is_draining()
    }

    /// A background job that ended before its time: the process cannot do its whole work any more, and only a new start
    /// can. `/healthz` says so, which makes whoever watches the process start it again.
    #[must_use]
    pub fn dead_job(&self) -> Option<&'static str> {
        self.0.dead_job.get().copied()
    }

    /// From here on `/readyz` is 503, and answers ask clients to close their connections.
    pub fn start_draining(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Waits until no request is in flight and no work runs. New work is still taken on meanwhile.
    pub async fn idle(&self) {
        self.0.work.close();
        loop {
            self.0.work.wait().await;
            if self.in_flight() == 0 && self.0.work.is_empty() {
                return;
            }
            // Requests end by answering, which nothing signals; this loop runs once in a process' life.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Tells the background jobs to finish, and waits for them.
    pub async fn stop_background(&self) {
        self.0.stop_background.cancel();
        self.0.background.close();
        self.0.background.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_goes_on_when_its_caller_is_dropped_and_is_waited_for() {
        let lifecycle = Lifecycle::new(Handle::current());
        let (release, released) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let call = lifecycle.run(async move {
            released.await.unwrap();
            done.send(()).unwrap();
        });
        // The caller leaves before its work has ended.
        assert!(tokio::time::timeout(Duration::ZERO, call).await.is_err());
        release.send(()).unwrap();
        lifecycle.idle().await;
        assert!(is_done.await.is_ok());
    }

    #[tokio::test]
    async fn a_panic_in_work_is_an_error_of_its_caller() {
        let lifecycle = Lifecycle::new(Handle::current());
        assert_eq!(lifecycle.run(async { panic!("on purpose") }).await, Err::<(), _>(Panicked));
    }

    #[tokio::test]
    async fn a_job_that_ends_before_its_time_is_known_by_name() {
        let lifecycle = Lifecycle::new(Handle::current());
        lifecycle.spawn_background("steady", |stop| async move { stop.cancelled().await });
        lifecycle.spawn_background("fragile", |_| async { panic!("on purpose") });
        while lifecycle.dead_job().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(lifecycle.dead_job(), Some("fragile"));
        lifecycle.stop_background().await;
        assert_eq!(lifecycle.dead_job(), Some("fragile"));
    }

    #[tokio::test]
    async fn background_jobs_are_told_to_stop_and_waited_for() {
        let lifecycle = Lifecycle::new(Handle::current());
        let (done, is_done) = oneshot::channel();
        lifecycle.spawn_background("test", |stop| async move {
            stop.cancelled().await;
            done.send(()).unwrap();
        });
        lifecycle.stop_background().await;
        assert!(is_done.await.is_ok());
    }
}
