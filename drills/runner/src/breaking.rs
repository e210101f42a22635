//! Load and faults, at the same time: one keeps to its plan whatever the other does.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use chassis::dev_secrets;
use contracts::Service;
use load::{Http, Limits, Plan, Process, Recording, Shop, Target, Users, shop::HotSku};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    charges::Placed,
    course::profile,
    faults::Faults,
    log::{Log, Seen, Timeline},
    probe,
    scenario::{Check, Scenario, Window},
    scrape::{self, Scraper},
    stack::Stack,
    verdict::Outcome,
};

/// Over which the checks of `abort_if` look back.
const ABORT_OVER: Duration = Duration::from_secs(5);
/// A product with less than this may be sold out by the end.
pub(crate) const WELL_STOCKED: i64 = 100;
pub(crate) const TOKENS_OUTLIVE: Duration = Duration::from_secs(600);

/// A run under way.
pub struct Run<'a> {
    pub scenario: &'a Scenario,
    pub timeline: Timeline,
    pub log: Mutex<Log>,
    pub faults: Faults,
    pub scraper: Scraper,
    pub outcome: Outcome,
    /// The orders that clients were told of.
    pub placed: Placed,
    /// Ends the load.
    pub stop: CancellationToken,
}

enum Step {
    Begin(usize),
    End(usize),
}

impl Run<'_> {
    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the system and breaks it on the way. What is broken then is for the caller to restore.
    pub async fn load_and_break(
        &mut self,
        stack: &Stack,
        answers: &Path,
        give_up: Instant,
        interrupted: &CancellationToken,
    ) -> Result<Recording> {
        let spec = &self.scenario.load;
        let profile = profile(self.scenario)?;
        let lives = profile.duration() + TOKENS_OUTLIVE;
        let users = Users::mint(spec.users, self.scenario.seed, dev_secrets::AUTH_JWT_SECRET, lives)?;
        let replicas = self.scenario.stack.replicas.get(Service::Order.as_str()).copied().unwrap_or(1);
        let targets = (0..replicas).map(|k| stack.api(Service::Order, k).parse::<Target>());
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let http = Http::across(&targets, spec.timeout.0)?.announcing(spec.announce.unwrap_or(spec.timeout).0);
        let skus = http.skus(users.get(0), WELL_STOCKED).await?;
        let hot = spec.hot_sku.as_ref().map(|hot| HotSku { sku: hot.sku.clone(), share: hot.share });
        let mut shop = Shop::new(users, skus, "", &Uuid::new_v4().simple().to_string())?
            .with_crowd(spec.crowd())
            .paid_with(spec.payment_method.parse()?)
            .with_coupons(spec.coupon.parse()?)
            .with_hot_sku(hot);
        let plan = Plan {
            profile,
            process: Process::Poisson,
            mix: spec.mix.parse()?,
            users: spec.users,
            seed: self.scenario.seed,
        };
        let limits = Limits { timeout: spec.timeout.0, ..Limits::default() };
        let file = File::create(answers).with_context(|| format!("cannot write {}", answers.display()))?;
        let (mut file, mut written) = (BufWriter::new(file), Ok(()));
        let stop = self.stop.clone();
        let (log, mut placed) = (std::mem::take(&mut self.log), Placed::default());
        let sink = |answer: &load::Answer| {
            if written.is_ok() {
                let line = serde_json::to_writer(&mut file, answer).map_err(anyhow::Error::from);
                written = line.and_then(|()| Ok(file.write_all(b"\n")?));
            }
            placed.note(answer);
            // Those in between are on file for the oracle; to its client, a request ends once.
            if !answer.last {
                return;
            }
            let seen = Seen {
                due: answer.intended,
                kind: answer.request.kind,
                outcome: answer.outcome,
                latency: answer.latency(),
                hot: answer.request.hot,
                tries: answer.request.attempt + 1,
            };
            log.lock().unwrap_or_else(PoisonError::into_inner).answers.push(seen);
        };
        let exchange = move |request: std::sync::Arc<load::Request>| {
            let http = http.clone();
            async move { http.exchange(&request).await }
        };
        let start = Instant::now();
        let loading = async {
            let recording = load::run(&plan, &mut shop, limits, exchange, sink, &stop).await;
            stop.cancel();
            recording
        };
        let (recording, ()) = tokio::join!(loading, self.direct(&log, start, give_up, interrupted));
        (self.log, self.placed) = (log, placed);
        written.and_then(|()| Ok(file.flush()?)).context("cannot write the answers")?;
        Ok(recording)
    }

    /// Follows the schedule of the faults and keeps an eye on the rest, until the load has ended.
    async fn direct(&mut self, log: &Mutex<Log>, start: Instant, give_up: Instant, interrupted: &CancellationToken) {
        let mut steps: Vec<(Duration, Step)> = Vec::new();
        for (number, fault) in self.scenario.faults.iter().enumerate() {
            steps.push((fault.at.0, Step::Begin(number)));
            steps.push((fault.end(), Step::End(number)));
        }
        steps.sort_by_key(|(at, _)| *at);
        let mut steps = steps.into_iter().peekable();
        let (mut next_look, mut steady) = (start, false);
        loop {
            let next_step = steps.peek().map(|(at, _)| start + *at);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = interrupted.cancelled() => self.abort("interrupted".to_owned()),
                () = sleep_until(give_up) => self.abort("max_duration is over".to_owned()),
                () = sleep_until(next_step.unwrap_or(start)), if next_step.is_some() => {
                    let Some((_, step)) = steps.next() else { continue };
                    if !steady {
                        self.look(log, start).await;
                        steady = self.is_steady(log);
                    }
                    self.take(step, steady).await;
                }
                () = sleep_until(next_look) => {
                    next_look += scrape::EVERY;
                    self.look(log, start).await;
                    self.watch(log, start.elapsed());
                }
            }
        }
        // What a fault had begun, the end of the load ends.
        self.look(log, start).await;
    }

    async fn look(&self, log: &Mutex<Log>, start: Instant) {
        let look = self.scraper.look(start.elapsed()).await;
        log.lock().unwrap_or_else(PoisonError::into_inner).looks.push(look);
    }

    fn abort(&mut self, reason: String) {
        self.outcome.aborted.get_or_insert(reason);
        self.stop.cancel();
    }

    /// Nothing is broken that was not well. The judge looks again, and says what was not.
    fn is_steady(&mut self, log: &Mutex<Log>) -> bool {
        let log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |check: &Check| probe::check(check, &log, &self.timeline, Window::Before).holds;
        let steady = self.scenario.steady_state.iter().all(holds);
        if !steady {
            self.stop.cancel();
        }
        steady
    }

    async fn take(&mut self, step: Step, steady: bool) {
        let done = match step {
            Step::Begin(number) if steady => self.faults.begin(number, &self.scenario.faults[number]).await,
            Step::Begin(_) => Ok(()),
            Step::End(number) => self.faults.end(number).await,
        };
        if let Err(error) = done {
            self.outcome.doubts.push(format!("{error:#}"));
            self.stop.cancel();
        }
    }

    fn watch(&mut self, log: &Mutex<Log>, now: Duration) {
        let span = (now.saturating_sub(ABORT_OVER).max(self.timeline.warm_up), now);
        if now < self.timeline.warm_up + ABORT_OVER {
            return;
        }
        let met = {
            let log = log.lock().unwrap_or_else(PoisonError::into_inner);
            let mut checked = self.scenario.abort_if.iter().map(|c| probe::over(c, &log, span, None, "now"));
            checked.find(|checked| checked.holds)
        };
        if let Some(checked) = met {
            self.abort(format!("abort_if: {} {}", checked.what, checked.bound));
        }
    }
}
