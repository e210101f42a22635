//! Sends what the plan says when the plan says it, whatever becomes of what was sent before.
//!
//! One task keeps the schedule and the books; each request is a task of its own, which notes for itself when it was
//! answered. So a slow book-keeper can delay a departure, which is measured as lag, but never lengthens a latency
//! unseen. A request that is due late leaves at once: arrivals are made up for, as the users who stand behind them
//! would not have gone away. What a client asks again because of an answer comes on top, and is counted apart.

use std::{future::Future, sync::Arc, time::Duration};

use chrono::Utc;
use contracts::OrderId;
use serde::Deserialize;
use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    plan::Plan,
    recording::Recording,
    request::{Answer, Failure, Outcome, Reply, Request},
    shop::Shop,
};

/// What bounds the generator.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most requests in flight. One that is due beyond them is not sent, and counted as the generator's failing.
    pub max_in_flight: usize,
    /// How long a client waits for an answer, from when the request really left.
    pub timeout: Duration,
    /// If one request in a hundred leaves later than this after its time, the run says nothing about the system.
    pub max_lag: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // 400 requests a second that all run into the timeout.
            max_in_flight: 2_000,
            // What the gateway gives a user's request.
            timeout: Duration::from_secs(5),
            // Small against the timeouts of which drills speak, large against what two busy cores do to a timer.
            max_lag: Duration::from_millis(50),
        }
    }
}

/// Runs `plan` to its end or until `stop`, and waits for what is in flight then. `exchange` carries one request;
/// `sink` sees every answer in the order of arrival.
pub async fn run<E, F>(
    plan: &Plan,
    shop: &mut Shop,
    limits: Limits,
    exchange: E,
    mut sink: impl FnMut(&Answer),
    stop: &CancellationToken,
) -> Recording
where
    E: Fn(Arc<Request>) -> F,
    F: Future<Output = Result<Reply, Failure>> + Send + 'static,
{
    let start = Instant::now();
    let mut recording = Recording::new(limits);
    let mut in_flight = JoinSet::new();
    let send = |in_flight: &mut JoinSet<Answer>, request: Arc<Request>, intended: Duration, pause: Duration| {
        // Does nothing until it is polled, which is after the pause.
        let exchange = exchange(request.clone());
        in_flight.spawn(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let sent = start.elapsed();
            let ended = timeout(limits.timeout, exchange).await;
            let answered = start.elapsed();
            judge(request, ended.ok(), Times { intended, sent, answered })
        });
    };
    let crowd = shop.crowd().clone();
    let mut note = |in_flight: &mut JoinSet<Answer>, recording: &mut Recording, shop: &mut Shop, done| {
        let mut answer = finished(done);
        let again = crowd.asks_again(&answer).filter(|_| !recording.stopped);
        answer.last = again.is_none();
        recording.answer(&answer);
        shop.remember(&answer);
        sink(&answer);
        if let Some(retry) = again {
            let request = Arc::new(answer.request.again(retry.new_key));
            send(in_flight, request, answer.intended, retry.pause);
        }
    };

    for call in plan.calls_of(&crowd) {
        let due = start + call.at;
        let wait = sleep_until(due);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => recording.stopped = true,
                () = &mut wait => {}
                Some(done) = in_flight.join_next() => {
                    note(&mut in_flight, &mut recording, shop, done);
                    continue;
                }
            }
            break;
        }
        if recording.stopped {
            break;
        }
        // What has been answered is in flight no more, even if nobody had time to write it down.
        while let Some(done) = in_flight.try_join_next() {
            note(&mut in_flight, &mut recording, shop, done);
        }
        recording.arrival(call.at);
        if in_flight.len() >= limits.max_in_flight {
            recording.unsent(call.at);
            continue;
        }
        let request = Arc::new(shop.compose(&call));
        let sent = start.elapsed();
        send(&mut in_flight, request, call.at, Duration::ZERO);
        recording.sent(call.at, sent.saturating_sub(call.at), in_flight.len());
    }
    while let Some(done) = in_flight.join_next().await {
        note(&mut in_flight, &mut recording, shop, done);
    }
    recording.elapsed = start.elapsed();
    recording
}

struct Times {
    intended: Duration,
    sent: Duration,
    answered: Duration,
}

/// What the client knows of the order after this; everything else in a body is dropped here.
#[derive(Default, Deserialize)]
struct Glance {
    id: Option<OrderId>,
    order_id: Option<OrderId>,
    #[serde(rename = "type")]
    problem: Option<String>,
    /// An order's is a word, a problem's a number.
    status: Option<serde_json::Value>,
}

/// `ended` is `None` if the client gave up.
fn judge(request: Arc<Request>, ended: Option<Result<Reply, Failure>>, times: Times) -> Answer {
    let (outcome, replayed, body) = match ended {
        Some(Ok(reply)) => (Outcome::Status(reply.status), reply.replayed, Some(reply.body)),
        Some(Err(failure)) => (failure.into(), false, None),
        None => (Outcome::TimedOut, false, None),
    };
    // A list or a product has none of these fields, and a body that is no JSON says nothing.
    let glance: Glance = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    Answer {
        request,
        outcome,
        last: true,
        replayed,
        order_id: glance.id.or(glance.order_id),
        order_status: glance.status.and_then(|status| status.as_str().map(str::to_owned)),
        problem: glance.problem,
        intended: times.intended,
        sent: times.sent,
        answered: times.answered,
        at: Utc::now(),
    }
}

/// No task is ever aborted, so one that did not finish has panicked; a defect of the exchange is not the system's.
fn finished(done: Result<Answer, JoinError>) -> Answer {
    match done {
        Ok(answer) => answer,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests;
