//! Where the system turned, and where it broke. Pure.
//!
//! A step is **carried** if 95 % of what came was sold, with a p99 of at most twice what it was unloaded (the lowest of
//! the first three steps). The **inflection** is the last step that is carried before two in a row are not; its value is
//! what was sold in it. The **breakage** is the first step from there on that is broken, as the one after it is: less
//! than half of what came was sold, or less than 80 % of the most that any step before sold; its value is what came.
//!
//! One step that is not carried between two that are is taken for noise and told: a machine that is shared has such
//! moments, and a system that has reached its limit does not come back under more load. From the first step on in which
//! the generator itself was in doubt there is no evidence, however well it looks.

use serde::Serialize;

use super::step::Step;

/// A step is carried if this share of what came was sold …
pub const CARRIED: f64 = 0.95;
/// … and no later than so many times the unloaded p99.
pub const KNEE: f64 = 2.0;
/// A step is broken if less than this share of what came was sold …
pub const BROKEN: f64 = 0.5;
/// … or less than this share of the most that was sold before.
pub const COLLAPSED: f64 = 0.8;
/// Of all answers, what a limit at the door may refuse before it is the limit that is measured.
pub const AT_THE_DOOR: f64 = 0.02;
/// Steps at the beginning of which the calmest says what unloaded means.
const UNLOADED: usize = 3;

/// What a curve says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// In milliseconds.
    pub unloaded_p99: f64,
    /// Orders a second that were sold at the inflection.
    pub inflection: f64,
    /// Which step that was, from 0.
    pub inflection_at: usize,
    /// Orders a second that came when it broke.
    pub breakage: f64,
    pub breakage_at: usize,
    /// Steps below the inflection that were not carried, each alone.
    pub noise: Vec<usize>,
}

/// Why a curve says nothing. Rates are orders a second, of all instances together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Doubt {
    #[error("no step was measured")]
    Nothing,
    #[error("the load generator was the bottleneck at {offered:.1}/s: {why}")]
    Generator { offered: f64, why: String },
    #[error(
        "at {offered:.1}/s a rate limit answered {:.0} % with 429: what it lets in was measured, and not what the system \
         carries; raise it for the measurement",
        .share * 100.0
    )]
    Limited { offered: f64, share: f64 },
    #[error("not even the first step, {offered:.1}/s, was carried: begin lower")]
    NeverCarried { offered: f64 },
    #[error("no inflection up to {offered:.1}/s: go higher")]
    NoInflection { offered: f64 },
    #[error("an inflection at {inflection:.1}/s, but no breakage up to {offered:.1}/s: go higher")]
    NoBreakage { inflection: f64, offered: f64 },
}

/// Reads a curve, whose steps go up.
pub fn read(steps: &[Step]) -> Result<Reading, Doubt> {
    let doubtful = steps.iter().position(|step| step.generator.doubt.is_some());
    let evidence = &steps[..doubtful.unwrap_or(steps.len())];
    // Where the evidence ends early, that it does is the reason for whatever is not found in it.
    let or = |doubt: Doubt| match doubtful.map(|at| &steps[at]) {
        Some(step) => {
            let why = step.generator.doubt.clone().unwrap_or_default();
            Doubt::Generator { offered: step.offered, why }
        }
        None => doubt,
    };
    let Some(last) = evidence.last() else { return Err(or(Doubt::Nothing)) };

    let p99s = evidence.iter().take(UNLOADED).filter_map(|step| step.latency.map(|latency| latency.p99));
    let unloaded_p99 = p99s.fold(f64::INFINITY, f64::min);
    let carried: Vec<bool> = evidence.iter().map(|step| is_carried(step, unloaded_p99)).collect();
    let Some(turn) = carried.windows(2).position(|pair| pair == [false, false]) else {
        // A single step that is not carried has no second one to confirm it.
        let never = carried.iter().all(|carried| !carried);
        let offered = last.offered;
        return Err(or(if never { Doubt::NeverCarried { offered } } else { Doubt::NoInflection { offered } }));
    };
    if let Some(limited) = evidence.iter().find(|step| step.share(TOO_MANY) > AT_THE_DOOR) {
        return Err(Doubt::Limited { offered: limited.offered, share: limited.share(TOO_MANY) });
    }
    // The one before the turn is carried, else the turn would be there.
    let Some(inflection_at) = turn.checked_sub(1) else {
        return Err(or(Doubt::NeverCarried { offered: evidence[0].offered }));
    };
    let inflection = evidence[inflection_at].goodput;

    let broken: Vec<bool> = (0..evidence.len()).map(|at| at >= turn && is_broken(evidence, at)).collect();
    let Some(breakage_at) = broken.windows(2).position(|pair| pair == [true, true]) else {
        return Err(or(Doubt::NoBreakage { inflection, offered: last.offered }));
    };
    let noise = (0..turn).filter(|at| !carried[*at]).collect();
    let breakage = evidence[breakage_at].offered;
    Ok(Reading { unloaded_p99, inflection, inflection_at, breakage, breakage_at, noise })
}

const TOO_MANY: &str = "429";

fn is_carried(step: &Step, unloaded_p99: f64) -> bool {
    step.success() >= CARRIED && step.latency.is_some_and(|latency| latency.p99 <= unloaded_p99 * KNEE)
}

fn is_broken(steps: &[Step], at: usize) -> bool {
    let most = steps[..at].iter().map(|step| step.goodput).fold(0.0, f64::max);
    steps[at].success() < BROKEN || steps[at].goodput < most * COLLAPSED
}

#[cfg(test)]
mod tests;
