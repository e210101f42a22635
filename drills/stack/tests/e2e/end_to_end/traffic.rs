//! Open-loop traffic against the running system. Every answer goes into the log for the oracle.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use chassis::dev_secrets;
use load::{Answer, Http, Limits, Plan, Process, Profile, Request, Shop, Users};
use tokio_util::sync::CancellationToken;

use super::{shop::logged, system::System};

pub const USERS: NonZeroU32 = NonZeroU32::new(200).unwrap();

/// A steady rate, in requests a second.
pub fn steady(rate: f64, lasts: Duration, process: Process, mix: &str, seed: u64) -> Plan {
    Plan { profile: Profile::steady(rate, lasts).unwrap(), process, mix: mix.parse().unwrap(), users: USERS, seed }
}

/// The shop of a plan's users, with the goods that `http` sells, and keys that no other run has.
pub async fn shop_of(plan: &Plan, http: &Http) -> Shop {
    let valid = Duration::from_secs(1_200);
    let users = Users::mint(plan.users, plan.seed, dev_secrets::AUTH_JWT_SECRET, valid).unwrap();
    let skus = http.skus(users.get(0), 2_000).await.unwrap();
    Shop::new(users, skus, "tok_approve", &uuid::Uuid::now_v7().simple().to_string()).unwrap()
}

/// Sends a plan's requests to the first replica of order, each once, until the plan ends or `stop`.
pub async fn send(system: &System, plan: &Plan, stop: &CancellationToken) -> Vec<Answer> {
    send_to(&system.url(), system, plan, stop).await
}

/// The same for another way in.
pub async fn send_to(url: &str, system: &System, plan: &Plan, stop: &CancellationToken) -> Vec<Answer> {
    let http = Http::new(&url.parse().unwrap(), Limits::default().timeout).unwrap();
    let mut shop = shop_of(plan, &http).await;
    let exchange = move |request: Arc<Request>| {
        let http = http.clone();
        async move { http.exchange(&request).await }
    };
    let (log, mut answers) = (system.shop.log(), Vec::new());
    let sink = |answer: &Answer| {
        log.write(&logged(answer)).unwrap();
        answers.push(answer.clone());
    };
    load::run(plan, &mut shop, Limits::default(), exchange, sink, stop).await;
    answers
}
