//! One way up: step after step of an open loop of orders, until the curve says where it turned and where it broke.

use std::{io::Write, num::NonZeroU32, sync::Arc};

use anyhow::{Context, Result};
use chassis::dev_secrets;
use contracts::Service;
use load::{Http, Limits, Mix, Plan, Process, Shop, Target, Users};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    ladder::Ladder,
    reading::{self, Doubt},
    step::Step,
};
use crate::{
    breaking::{TOKENS_OUTLIVE, WELL_STOCKED},
    stack::Stack,
};

pub struct Climb<'a> {
    pub ladder: &'a Ladder,
    pub stack: &'a Stack,
    pub seed: u64,
    pub interrupted: &'a CancellationToken,
    /// Told of every step.
    pub say: &'a dyn Fn(&str),
}

/// So many that nobody's own limit is what refuses.
const USERS: NonZeroU32 = NonZeroU32::MIN.saturating_add(499);

impl Climb<'_> {
    /// The steps on the first `instances` of order, which take turns. An interruption ends it at the step before.
    pub async fn up(&self, instances: u16, answers: &mut impl Write) -> Result<Vec<Step>> {
        let targets = (0..instances).map(|k| self.stack.api(Service::Order, k).parse::<Target>());
        let http = Http::across(&targets.collect::<Result<Vec<_>, _>>()?, Limits::default().timeout)?;
        let steps = u32::try_from(self.ladder.rates.iter().count()).unwrap_or(u32::MAX);
        // Each may be taken twice.
        let lives = self.ladder.lasts.saturating_mul(steps).saturating_mul(2) + TOKENS_OUTLIVE;
        let users = Users::mint(USERS, self.seed, dev_secrets::AUTH_JWT_SECRET, lives)?;
        let skus = http.skus(users.get(0), WELL_STOCKED).await?;
        let mut shop = Shop::new(users, skus, "tok_approve", &Uuid::new_v4().simple().to_string())?;

        let mut steps: Vec<Step> = Vec::new();
        for (number, rate) in (0_u64..).zip(self.ladder.rates.iter()) {
            // Other arrivals in every step, and the same ones for the same seed.
            let seed = self.seed.wrapping_add(number).wrapping_add(u64::from(instances) << 32);
            let mut step = self.step(instances, rate, seed, &http, &mut shop, answers).await?;
            if let (Some(doubt), false) = (&step.generator.doubt, self.interrupted.is_cancelled()) {
                (self.say)(&format!("  {:>6.1}/s came: {doubt}; once more", step.offered));
                step = self.step(instances, rate, seed, &http, &mut shop, answers).await?;
            }
            if self.interrupted.is_cancelled() {
                break;
            }
            let p99 = step.latency.map_or(f64::NAN, |latency| latency.p99);
            (self.say)(&format!("  {:>6.1}/s came, {:>6.1} sold, p99 {p99:.0} ms", step.offered, step.goodput));
            steps.push(step);
            if is_over(&steps) {
                break;
            }
        }
        Ok(steps)
    }

    async fn step(
        &self,
        instances: u16,
        rate: f64,
        seed: u64,
        http: &Http,
        shop: &mut Shop,
        answers: &mut impl Write,
    ) -> Result<Step> {
        let profile = self.ladder.profile(rate, instances)?;
        let mix: Mix = "orders".parse()?;
        let plan = Plan { profile, process: Process::Poisson, mix, users: USERS, seed };
        let exchange = |request: Arc<load::Request>| {
            let http = http.clone();
            async move { http.exchange(&request).await }
        };
        // Keys are made of the run's name and the call's number, which begin anew in every step.
        shop.begin_run(&Uuid::new_v4().simple().to_string());
        let mut written = Ok(());
        let sink = |answer: &load::Answer| {
            if written.is_ok() {
                let line = serde_json::to_writer(&mut *answers, answer).map_err(anyhow::Error::from);
                written = line.and_then(|()| Ok(answers.write_all(b"\n")?));
            }
        };
        let recording = load::run(&plan, shop, Limits::default(), exchange, sink, self.interrupted).await;
        written.context("cannot write the answers")?;
        Ok(Step::of(&recording, Ladder::WARM_UP, self.ladder.lasts))
    }
}

/// Whether more steps would change nothing.
fn is_over(steps: &[Step]) -> bool {
    match reading::read(steps) {
        Ok(_) | Err(Doubt::Generator { .. } | Doubt::Limited { .. }) => true,
        // A first step alone may be noise.
        Err(Doubt::NeverCarried { .. }) => steps.len() > 1,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::sample::{RATES, carries, late, step};

    #[test]
    fn the_way_up_ends_with_the_step_that_confirms_the_breakage() {
        let steps = carries(42.0, RATES);
        let taken = (1..=steps.len()).find(|taken| is_over(&steps[..*taken]));
        assert_eq!(taken, Some(8), "90 is broken, and 120 says so too");
    }

    #[test]
    fn it_ends_where_nothing_can_be_learnt_any_more() {
        assert!(is_over(&[late(step(10.0, 10.0, 200.0))]));
        assert!(is_over(&carries(5.0, [10.0, 20.0])));
        assert!(!is_over(&carries(5.0, [10.0])), "one step may be noise");
        assert!(!is_over(&carries(50.0, [10.0, 20.0])));
    }
}
