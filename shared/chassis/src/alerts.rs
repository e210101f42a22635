//! Tells `ALERT_WEBHOOK_URL` of every change of a breaker's state, recovery included, and of what waits for a person.
//!
//! A breaker changes its state in the middle of a request, so whoever tells of something leaves a note in a bounded queue
//! and goes on. A job posts the notes one after the other, each a few times, and gives up: an alert that comes after
//! minutes of tries says what nobody wants to know any more. Every note that is not posted is counted.

use std::{sync::OnceLock, time::Duration};

use reqwest::{Client, header};
use resilience::breaker::Transition;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::{Lifecycle, Wiring};

/// Notes that wait, at most: more breakers than there are, each changing a dozen times in a row.
const QUEUE: usize = 128;
/// For one try.
const TIMEOUT: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;
/// Before the second try, and twice that before the third.
const PAUSE: Duration = Duration::from_millis(250);

/// Where notes are left. Without a webhook it takes none.
#[derive(Default)]
pub(crate) struct Alerts(OnceLock<Sender<Note>>);

/// One piece of news, as it is posted.
#[derive(Debug, Clone, Serialize)]
struct Note {
    /// What kind it is of.
    alert: &'static str,
    #[serde(flatten)]
    facts: Map<String, Value>,
    at: String,
}

/// The facts of a breaker's change.
#[derive(Serialize)]
struct Change {
    downstream: &'static str,
    from: &'static str,
    to: &'static str,
    /// Why, with the figures that decided.
    reason: Value,
    failure_ratio: f64,
    slow_ratio: f64,
    calls: u32,
    /// Counts the changes of this breaker, so that two that arrive in the other order can be told apart.
    number: u64,
}

/// A note, and who says it.
#[derive(Serialize)]
struct Alert<'a> {
    #[serde(flatten)]
    note: &'a Note,
    service: &'a str,
    instance: &'a str,
    rule_version: i64,
}

impl Alerts {
    /// Of a breaker. Never waits.
    pub fn changed(&self, downstream: &'static str, transition: &Transition) {
        let change = Change {
            downstream,
            from: transition.from.as_str(),
            to: transition.to.as_str(),
            reason: serde_json::to_value(transition.reason).unwrap_or_default(),
            failure_ratio: transition.failure_ratio,
            slow_ratio: transition.slow_ratio,
            calls: transition.calls,
            number: transition.number,
        };
        self.tell("breaker", &change);
    }

    /// Never waits. `facts` are an object.
    pub fn tell(&self, alert: &'static str, facts: &impl Serialize) {
        let Some(queue) = self.0.get() else { return };
        let Ok(Value::Object(facts)) = serde_json::to_value(facts) else {
            return dropped("no_object");
        };
        let at = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        if queue.try_send(Note { alert, facts, at }).is_err() {
            dropped("queue_full");
        }
    }

    /// Begins to post, where the wiring says where to.
    pub fn start(&self, wiring: &Wiring, lifecycle: &Lifecycle) -> Result<(), reqwest::Error> {
        let Some(url) = wiring.alert_webhook.clone() else { return Ok(()) };
        let client = Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()?;
        let (queue, notes) = mpsc::channel(QUEUE);
        // A second start would be of a second application with the same lifecycle, which there is none of.
        if self.0.set(queue).is_ok() {
            let wiring = wiring.clone();
            lifecycle.spawn_background("alerts", |stop| post_all(client, url, wiring, notes, stop));
        }
        Ok(())
    }
}

async fn post_all(client: Client, url: String, wiring: Wiring, mut notes: Receiver<Note>, stop: CancellationToken) {
    loop {
        let note = tokio::select! {
            () = stop.cancelled() => return,
            note = notes.recv() => note,
        };
        // The sender lives as long as the process.
        let Some(note) = note else { return };
        let alert = Alert {
            note: &note,
            service: wiring.service.as_str(),
            instance: &wiring.instance,
            rule_version: wiring.rules.handle.current().version,
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = post(&client, &url, &alert) => {}
        }
    }
}

async fn post(client: &Client, url: &str, alert: &Alert<'_>) {
    for tries in 0..TRIES {
        if tries > 0 {
            tokio::time::sleep(PAUSE * 2_u32.pow(tries - 1)).await;
        }
        let sent = client.post(url).header(header::CONTENT_TYPE, "application/json").json(alert).send().await;
        if sent.is_ok_and(|answer| answer.status().is_success()) {
            metrics::counter!("stability_alerts_posted_total").increment(1);
            return;
        }
    }
    dropped("not_taken");
    // The address may hold a secret; it is not repeated.
    tracing::warn!(alert = alert.note.alert, facts = ?alert.note.facts, "an alert was not taken by its webhook");
}

fn dropped(reason: &'static str) {
    metrics::counter!("stability_alerts_dropped_total", "reason" => reason).increment(1);
}
