//! A crash at any named point loses nothing and charges nobody twice.
//!
//! Every point is armed in turn in a real process; customers come until the process has died there, and it is started
//! again as it was. That it died of the point, and not of anything else, its log says.

use std::{path::Path, time::Duration};

use chassis::dev_secrets;
use contracts::Service;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    audit,
    shop::{fresh_key, order_of},
    system::{System, WITHOUT_BREAKERS, count, is_full, turn},
};

/// Longer than two joins of a consumer group and a lease that has to expire; shorter than customers are patient.
const PATIENCE: Duration = Duration::from_secs(55);
const TEA: &str = "TEA-EARLGREY-100";

/// After how many crashes the oracle is asked: it waits until all is quiet, which takes longer than the crash.
const CRASHES_BETWEEN_AUDITS: usize = 6;

/// Several minutes: more than `./dev test` has. It walks through the same points in each service's own step tests, with
/// tasks that die in place of processes.
fn is_left_out() -> bool {
    if !is_full() {
        eprintln!("skipped: DEV_TEST_FULL is not set");
    }
    !is_full()
}

/// Order calls the first replica alone, and what the consumers and jobs do is done by either: whichever comes to the
/// point first dies of it, and the other goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_of_payment_loses_nothing() {
    const REPLICAS: [&str; 2] = ["payment:0", "payment:1"];
    if is_left_out() {
        return;
    }
    let points = payment::workflow::CRASH_POINTS.iter();
    let steps = points.map(|point| Step { armed: REPLICAS.map(|replica| (replica, *point)).into(), dies: Dies::One });
    walk(&steps.collect::<Vec<_>>()).await;
}

/// Two at a time, one in each replica: each has to go on with what the other one left. An order that a dead run left
/// is taken over by either, so that both die of that, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_of_order_loses_nothing() {
    const REPLICAS: [&str; 2] = ["order:0", "order:1"];
    if is_left_out() {
        return;
    }
    let (either, own): (Vec<&str>, Vec<&str>) =
        order::workflow::CRASH_POINTS.iter().partition(|point| point.contains("taken_over"));
    let own = own.chunks(2).map(|points| REPLICAS.into_iter().zip(points.iter().copied()).collect());
    let either = either.into_iter().map(|point| REPLICAS.map(|replica| (replica, point)).to_vec());
    let steps = own.chain(either).map(|armed| Step { armed, dies: Dies::Each });
    walk(&steps.collect::<Vec<_>>()).await;
}

/// Which process is to die where, at the same time.
struct Step {
    armed: Vec<(&'static str, &'static str)>,
    dies: Dies,
}

/// What has to have died for the step to be over.
#[derive(Clone, Copy)]
enum Dies {
    One,
    Each,
}

impl Step {
    fn is_over(&self, system: &System) -> bool {
        let mut dead = self.armed.iter().map(|(process, point)| died(system, process, point));
        match self.dies {
            Dies::One => dead.any(|dead| dead),
            Dies::Each => dead.all(|dead| dead),
        }
    }
}

async fn walk(steps: &[Step]) {
    let system = turn().await;
    system.rule(91, WITHOUT_BREAKERS).await;
    audit::clean(&system).await;
    for (number, step) in steps.iter().enumerate() {
        let began = Instant::now();
        die_at(&system, step).await;
        for (process, _) in &step.armed {
            system.restart(process, &[]).await;
        }
        eprintln!("{:?}: died and restarted within {:.1} s", step.armed, began.elapsed().as_secs_f64());
        if (number + 1) % CRASHES_BETWEEN_AUDITS == 0 || number + 1 == steps.len() {
            audit::clean(&system).await;
        }
    }
    system.rule(92, "").await;
}

/// Arms the points, and lets customers come until each process has died of its own.
async fn die_at(system: &System, step: &Step) {
    let weather = Weather::before(step);
    let customers = async {
        loop {
            one_round(system, weather).await;
        }
    };
    let crash = async {
        if weather.leaves_work_undone {
            // Whatever is under way at this moment is left to whoever looks after what was left, which must be those
            // who are armed.
            under_way(system).await;
            for (process, _) in &step.armed {
                system.kill(process);
            }
        }
        for (process, point) in &step.armed {
            // It may die before it is ready.
            let armed = format!("CRASH_AT={point}");
            system.try_restart(process, &["--env", &armed]).await;
        }
        weather.begin(system).await;
        let give_up = Instant::now() + PATIENCE;
        while !step.is_over(system) {
            assert!(Instant::now() < give_up, "{:?}: not reached", step.armed);
            if weather.asks_for_refunds {
                ask_for_a_refund_again(system).await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    // Customers of a process that died are not answered, and do not matter any more.
    tokio::select! {
        () = crash => {}
        () = customers => {}
    }
    weather.end(system).await;
}

async fn under_way(system: &System) {
    let (orders, attempts) = (system.database("order").await, system.database("payment").await);
    testkit::eventually("something is under way", async || {
        let order = "select count(*) from orders where status in ('created', 'stock_reserved', 'payment_in_flight')";
        let attempt = "select count(*) from attempts where state = 'dispatched'";
        (count(&orders, order).await > 0 && count(&attempts, attempt).await > 0).then_some(())
    })
    .await;
}

/// What has to be the case for a point to be passed at all.
#[derive(Clone, Copy)]
struct Weather {
    primary_away: bool,
    backup_away: bool,
    /// They come back while the point is armed.
    for_a_moment: bool,
    leaves_work_undone: bool,
    asks_for_refunds: bool,
}

impl Weather {
    fn before(step: &Step) -> Self {
        let any = |parts: &[&str]| step.armed.iter().any(|(_, point)| parts.iter().any(|part| point.contains(part)));
        let deferred = any(&["defer"]);
        // Large orders are refused then: their attempt is fenced, and what they held is let go of before the answer.
        let refused = any(&["stock_released", "payment.fence"]);
        Self {
            primary_away: deferred || refused || any(&["backup"]),
            backup_away: deferred || refused,
            for_a_moment: deferred,
            leaves_work_undone: any(&["swept", "taken_over"]),
            // Order asks by an event; this is how others ask.
            asks_for_refunds: any(&["payment.refund.requested"]),
        }
    }

    fn away(self) -> impl Iterator<Item = &'static str> {
        let channels = [("provider-primary", self.primary_away), ("provider-backup", self.backup_away)];
        channels.into_iter().filter_map(|(name, away)| away.then_some(name))
    }

    async fn begin(self, system: &System) {
        for channel in self.away() {
            system.kill(channel);
        }
        if self.for_a_moment {
            let deferred = system.database("order").await;
            testkit::eventually("a payment is deferred", async || {
                let sql = "select count(*) from orders where payment_state = 'deferred' and status = 'payment_pending'";
                (count(&deferred, sql).await > 0).then_some(())
            })
            .await;
            self.end(system).await;
        }
    }

    async fn end(self, system: &System) {
        for channel in self.away().filter(|channel| system.process(channel, 0)["state"] != "ready") {
            system.restart(channel, &[]).await;
        }
    }
}

/// A customer of every kind, at once: none of them waits for another.
async fn one_round(system: &System, weather: Weather) {
    let place = async |method: &str, coupon: bool| {
        let mut order = order_of(TEA, 1, method);
        if coupon {
            order["coupon_code"] = json!("WELCOME10");
        }
        system.shop.place(&fresh_key(), &order).await.body
    };
    let and_cancel = async |method: &str| {
        if let Some(id) = place(method, false).await["id"].as_str() {
            system.shop.cancel(id).await;
        }
    };
    tokio::join!(
        async { drop(place("tok_approve", true).await) },
        async { drop(place("tok_slow_300", false).await) },
        async { drop(place("tok_decline", false).await) },
        async { drop(place("tok_lost_reply", false).await) },
        and_cancel("tok_approve"),
        and_cancel("tok_lost_request"),
        async {
            if weather.leaves_work_undone {
                // Two who do not come again: whoever does takes up what was left before anybody else looks after it.
                let slow = order_of(TEA, 1, "tok_slow_1000");
                let (first, second) = (fresh_key(), fresh_key());
                let once = async |turn, key: &str| drop(system.shop.place_once(turn, key, &slow).await);
                tokio::join!(once(0, &first), once(1, &second));
            }
        },
        async {
            if weather.backup_away {
                // Too large to wait. It is told to come again, and does not.
                drop(system.shop.place_once(0, &fresh_key(), &order_of(TEA, 50, "tok_approve")).await);
                drop(system.shop.place_once(1, &fresh_key(), &order_of(TEA, 50, "tok_approve")).await);
            }
        },
    );
}

/// Whether the process is dead, by its own word at the point.
fn died(system: &System, process: &str, point: &str) -> bool {
    let (name, replica) = process.split_once(':').unwrap();
    let dead = system.process(name, replica.parse().unwrap())["state"] == "exited";
    dead && says(&system.folder().join(format!("logs/{name}-{replica}.log")), point)
}

fn says(log: &Path, point: &str) -> bool {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().any(|line| line.contains("crashing") && line.contains(&format!("\"{point}\"")))
}

/// A refund that order asked for, asked for once more by a call.
async fn ask_for_a_refund_again(system: &System) {
    let refund: Option<(Uuid, Uuid, i64)> = sqlx::query_as(
        "select r.refund_id, o.attempt_id, r.amount_minor from refunds r join orders o on o.id = r.order_id limit 1",
    )
    .fetch_optional(&system.database("order").await)
    .await
    .unwrap();
    let Some((refund_id, attempt, amount_minor)) = refund else { return };
    let body: Value = json!({"refund_id": refund_id, "amount_minor": amount_minor, "reason": "cancelled"});
    let url = format!("http://127.0.0.1:{}/v1/payments/{attempt}/refunds", Service::Payment.api_port(system.base, 0));
    let call = reqwest::Client::new().post(url).bearer_auth(dev_secrets::internal_token("order")).json(&body);
    // The process dies of it.
    drop(call.send().await);
}
