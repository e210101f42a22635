//! Crash points: named places where a process may be made to die, to show that a crash there loses nothing.
//!
//! A point stands between two steps whose order matters, such as a commit and the call that follows it. `CRASH_AT` names
//! the one that is armed, and the process that passes it aborts, with nothing flushed and nobody told. It is armed only
//! where `APP_ENV=dev`; elsewhere, and while none is armed, a point costs a look at a flag.
//!
//! Within one process, tests let a single task die with [`dies_at`].
//!
//! The name begins with its service (`payment.intent_saved`), so that one `CRASH_AT` may be given to every process of a
//! system, and one that the service in question does not have stops that service's start instead of doing nothing.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::OnceLock,
};

use contracts::Service;
use futures_util::FutureExt;

use crate::env::{ConfigError, Env, bad};

static ARMED: OnceLock<String> = OnceLock::new();

tokio::task_local! {
    static MORTAL: &'static str;
}

const VARIABLE: &str = "CRASH_AT";

/// The task died at the point that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Died;

/// Aborts the process, if this point is the armed one.
pub fn crash_point(name: &'static str) {
    if ARMED.get().is_some_and(|armed| armed == name) {
        tracing::error!(crash_point = name, "crashing, as CRASH_AT asks for");
        std::process::abort();
    }
    if MORTAL.try_with(|at| *at == name).unwrap_or(false) {
        // No panic hook, and so no report: it is no mistake.
        resume_unwind(Box::new(Died));
    }
}

/// Reads `CRASH_AT` and arms it. `points` are all that `service` has. Ignored unless `APP_ENV=dev`.
pub fn arm(env: &mut Env, service: Service, points: &[&'static str]) -> Result<(), ConfigError> {
    if let Some(armed) = chosen(env, service, points)? {
        // The first one stays: a process reads its configuration once.
        let _ = ARMED.set(armed);
    }
    Ok(())
}

fn chosen(env: &mut Env, service: Service, points: &[&'static str]) -> Result<Option<String>, ConfigError> {
    let dev = env.is_dev()?;
    let Some(name) = env.get(VARIABLE).filter(|_| dev) else { return Ok(None) };
    let ours = name.split_once('.').is_some_and(|(owner, _)| owner == service.as_str());
    match ours {
        false => Ok(None),
        true if points.contains(&name.as_str()) => Ok(Some(name)),
        true => Err(bad(VARIABLE, format!("`{name}` is no crash point; there are {}", points.join(", ")))),
    }
}

/// Runs `work` until it passes `point`, where it dies as if its process did: what it held is dropped, and nothing after
/// the point happens. What it spawned lives on.
pub async fn dies_at<F: Future>(point: &'static str, work: F) -> Result<F::Output, Died> {
    match AssertUnwindSafe(MORTAL.scope(point, work)).catch_unwind().await {
        Ok(done) => Ok(done),
        Err(panic) => match panic.downcast::<Died>() {
            Ok(died) => Err(*died),
            Err(other) => resume_unwind(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: &[&str] = &["payment.intent_saved", "payment.answer_read"];

    fn choose(pairs: &[(&str, &str)]) -> Result<Option<String>, ConfigError> {
        let mut env = Env::from_pairs(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        chosen(&mut env, Service::Payment, POINTS)
    }

    #[test]
    fn a_point_is_armed_in_development_alone() {
        let at = ("CRASH_AT", "payment.intent_saved");
        assert_eq!(choose(&[("APP_ENV", "dev"), at]).unwrap().as_deref(), Some("payment.intent_saved"));
        assert_eq!(choose(&[at]).unwrap(), None);
        assert_eq!(choose(&[("APP_ENV", "dev")]).unwrap(), None);
    }

    #[test]
    fn another_services_point_is_left_to_it_and_one_that_nobody_has_is_refused() {
        assert_eq!(choose(&[("APP_ENV", "dev"), ("CRASH_AT", "order.intent_saved")]).unwrap(), None);
        let refused = choose(&[("APP_ENV", "dev"), ("CRASH_AT", "payment.intent_safed")]).unwrap_err();
        assert_eq!(refused.variable, "CRASH_AT");
        assert!(refused.reason.contains("payment.answer_read"), "{refused}");
    }

    #[tokio::test]
    async fn a_task_dies_at_its_point_and_passes_the_others() {
        let passed = std::cell::Cell::new(0);
        let work = async {
            crash_point("payment.intent_saved");
            passed.set(1);
            crash_point("payment.answer_read");
            passed.set(2);
        };
        assert_eq!(dies_at("payment.answer_read", work).await, Err(Died));
        assert_eq!(passed.get(), 1);
        assert_eq!(dies_at("payment.answer_read", async { crash_point("payment.intent_saved") }).await, Ok(()));
        // Nothing is armed outside of it.
        crash_point("payment.answer_read");
    }
}
