//! Rules from the console: the question at the start, and the one that is always open afterwards.
//!
//! No request ever waits for the console, and nothing else notices when it is away: a job asks for news, waits, and asks
//! again. What arrives is validated here too, since the console may be of another release; then it comes into force as a
//! whole, is kept for the next start, and is reported. What is refused is reported with the reason, and the rules in
//! force stay.

mod line;
mod pace;

use std::{sync::Arc, time::Duration};

use contracts::ruling::{AppliedRules, CurrentRules};
use rand::Rng;
use rules::Rules;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use self::{
    line::{Heard, Line, Unheard},
    pace::{Came, Pace},
};
use crate::{Lifecycle, Wiring, rules_desk::Desk};

/// How long a start waits for the console: it is the best source, and not one that a start depends on.
const START_PATIENCE: Duration = Duration::from_secs(1);
/// How long a question is left open.
const WAIT: Duration = Duration::from_secs(25);
/// What an instance runs on is said again after so long, so that one that says nothing is known to be gone.
const REPORT_AGAIN: Duration = Duration::from_secs(60);

/// Begins with what the console says, where the wiring names one and it answers in time. To be called before anything
/// is built from the rules.
pub async fn at_start(wiring: &mut Wiring) {
    let Some(line) = line(wiring) else { return };
    let desk = wiring.rules.desk.clone();
    match timeout(START_PATIENCE, line.ask(None, Duration::ZERO)).await {
        Ok(Ok(Heard::Rules(current))) => drop(take_in(&desk, current).await),
        Ok(Ok(Heard::TakenBack)) => take_back(&desk).await,
        Ok(Ok(Heard::NothingNew | Heard::Unsaid)) => {}
        Ok(Err(error)) => missing(wiring, &error.to_string()),
        Err(_) => missing(wiring, "it took too long"),
    }
    wiring.rules.catch_up();
}

fn missing(wiring: &Wiring, reason: &str) {
    let rules_origin = wiring.rules.origin;
    tracing::warn!(reason, ?rules_origin, "the console does not say what to start with; the next best source does");
}

fn line(wiring: &Wiring) -> Option<Line> {
    let url = wiring.console.as_deref()?;
    match Line::new(url, wiring) {
        Ok(line) => Some(line),
        Err(error) => {
            tracing::error!(%error, "the console cannot be asked");
            None
        }
    }
}

/// Follows the console until shutdown, where the wiring names one.
pub(crate) fn follow(wiring: &Wiring, lifecycle: &Lifecycle) {
    let Some(line) = line(wiring) else { return };
    let follower = Follower { line, desk: wiring.rules.desk.clone(), refused: None, reported: None, is_heard: None };
    lifecycle.spawn_background("console", |stop| follower.run(stop));
}

struct Follower {
    line: Line,
    desk: Arc<Desk>,
    /// Why the last version did not come into force.
    refused: Option<String>,
    reported: Option<(AppliedRules, Instant)>,
    /// Whether it answered last time, so that a change is told once.
    is_heard: Option<bool>,
}

impl Follower {
    async fn run(mut self, stop: CancellationToken) {
        let mut pace = Pace::default();
        // What was in force at the start is asked for again: now it is the console's word, and no memory of it.
        let mut tag = None;
        // Answered at once, so that the console soon knows what runs here.
        let mut wait = Duration::ZERO;
        loop {
            let asked = Instant::now();
            let heard = tokio::select! {
                () = stop.cancelled() => return,
                heard = self.line.ask(tag, wait) => heard,
            };
            let came = self.take(heard, &mut tag).await;
            let was_asked_to_wait = !wait.is_zero();
            wait = if came == Came::NoAnswer { Duration::ZERO } else { WAIT };
            if came != Came::NoAnswer {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.report() => {}
                }
            }
            let mut pause = pace.after(came, asked.elapsed(), rand::rng().random());
            if came == Came::NoNews && !was_asked_to_wait {
                pause = Duration::ZERO;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn take(&mut self, heard: Result<Heard, Unheard>, tag: &mut Option<i64>) -> Came {
        self.note(heard.as_ref().err());
        match heard {
            // Said again although it is known; to be asked at once would go on for ever.
            Ok(Heard::Rules(current)) if *tag == Some(current.version) => Came::NoNews,
            Ok(Heard::Rules(current)) => {
                *tag = Some(current.version);
                self.refused = take_in(&self.desk, current).await;
                Came::News
            }
            Ok(Heard::TakenBack) => {
                let is_news = *tag != Some(0);
                *tag = Some(0);
                self.refused = None;
                take_back(&self.desk).await;
                if is_news { Came::News } else { Came::NoNews }
            }
            Ok(Heard::NothingNew) => Came::NoNews,
            Ok(Heard::Unsaid) => {
                // A history that begins anew counts from one again.
                *tag = None;
                Came::NoNews
            }
            Err(_) => Came::NoAnswer,
        }
    }

    fn note(&mut self, error: Option<&Unheard>) {
        let is_heard = error.is_none();
        metrics::gauge!("stability_rules_console_answers").set(f64::from(u8::from(is_heard)));
        if self.is_heard.replace(is_heard) == Some(is_heard) {
            return;
        }
        match error {
            None => tracing::info!("the console answers"),
            Some(reason) => tracing::warn!(%reason, "the console does not answer; the rules in force stay"),
        }
    }

    /// Where it is news, or was not said for a while. One that is not taken is said again after the next answer.
    async fn report(&mut self) {
        let in_force = self.desk.handle.in_force();
        let now = AppliedRules {
            service: self.line.service,
            instance: self.line.instance.clone(),
            version: in_force.rules.version,
            origin: in_force.origin.as_str().to_owned(),
            error: self.refused.clone(),
        };
        if self.reported.as_ref().is_some_and(|(said, at)| *said == now && at.elapsed() < REPORT_AGAIN) {
            return;
        }
        match self.line.report(&now).await {
            Ok(()) => self.reported = Some((now, Instant::now())),
            Err(error) => {
                self.reported = None;
                tracing::debug!(%error, "the console did not take the report");
            }
        }
    }
}

/// The reason where it is refused.
async fn take_in(desk: &Arc<Desk>, current: CurrentRules) -> Option<String> {
    let (desk, CurrentRules { version, document, .. }) = (desk.clone(), current);
    // A disk may be slow, and a document long.
    let work = tokio::task::spawn_blocking(move || match Rules::from_toml(&document) {
        Ok(rules) => {
            desk.console_says(version, document, rules);
            None
        }
        Err(error) => {
            metrics::counter!("stability_rules_refused_total").increment(1);
            let rule_version = desk.handle.current().version;
            tracing::error!(%error, rule_version, refused = version, "the console's rules were refused; those in force stay");
            let reason = format!("version {version}: {error}").replace('\0', " ");
            Some(reason.chars().take(AppliedRules::MAX_ERROR).collect())
        }
    });
    work.await.unwrap_or_else(|error| Some(format!("version {version}: {error}")))
}

async fn take_back(desk: &Arc<Desk>) {
    let desk = desk.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || desk.console_takes_back()).await {
        tracing::error!(%error, "the console's rules could not be given back");
    }
}
