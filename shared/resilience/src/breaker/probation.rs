//! Half-open: who may probe, and what the probes decided. No clock; the breaker's lock serialises it.
//!
//! A place is *reserved* before the call and counted until its verdict, so that however many callers arrive at once,
//! places taken and verdicts given never exceed `probes`. (Counting completions instead lets them all in.) A place
//! comes back when its probe is given up without a verdict, and when its lease expires; the verdict of a probe whose
//! lease has expired is ignored, since its place may be somebody else's by then.

use std::time::Duration;

use tokio::time::Instant;

use super::{config::BreakerConfig, report::Reason, window::Outcome};

#[derive(Debug, Default)]
pub(super) struct Probation {
    leases: Vec<Lease>,
    /// Never reused within a breaker's life, so that a late verdict cannot be taken for another probe's.
    last_serial: u64,
    settled: u32,
    failed: u32,
    slow: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Decision {
    /// Not enough verdicts yet, or one that counts no more.
    Wait,
    Recovered(Reason),
    StillDown(Reason),
}

#[derive(Debug)]
struct Lease {
    serial: u64,
    expires: Instant,
}

impl Probation {
    /// A new round.
    pub(super) fn begin(&mut self) {
        self.leases.clear();
        (self.settled, self.failed, self.slow) = (0, 0, 0);
    }

    /// A place, or how long until the next one is free at the latest.
    pub(super) fn reserve(&mut self, config: &BreakerConfig, now: Instant) -> Result<u64, Duration> {
        self.leases.retain(|lease| lease.expires > now);
        self.check(config, now)?;
        self.last_serial += 1;
        self.leases.push(Lease { serial: self.last_serial, expires: now + config.probe_lease });
        Ok(self.last_serial)
    }

    /// Whether `reserve` would give a place now.
    pub(super) fn check(&self, config: &BreakerConfig, now: Instant) -> Result<(), Duration> {
        let live = self.leases.iter().filter(|lease| lease.expires > now).count();
        // Fewer probes may be asked for than have settled already: then one more decides, instead of none ever.
        let places = config.probes.max(self.settled + 1) as usize;
        if live + (self.settled as usize) < places {
            return Ok(());
        }
        let expiry = self.leases.iter().map(|lease| lease.expires.saturating_duration_since(now)).min();
        // A healthy probe answers before it counts as slow, so that is when it is worth asking again.
        Err(expiry.unwrap_or(config.slow_threshold).min(config.slow_threshold).max(Duration::from_millis(1)))
    }

    /// Gives a place back without a verdict.
    pub(super) fn give_back(&mut self, serial: u64) {
        self.leases.retain(|lease| lease.serial != serial);
    }

    /// Counts a verdict. It opens again as soon as the rest of the probes could not help, and closes when all are in.
    pub(super) fn settle(&mut self, serial: u64, outcome: Outcome, config: &BreakerConfig, now: Instant) -> Decision {
        let held = self.leases.iter().any(|lease| lease.serial == serial && lease.expires > now);
        self.give_back(serial);
        if !held {
            return Decision::Wait;
        }
        self.settled += 1;
        self.failed += u32::from(outcome.failed);
        self.slow += u32::from(outcome.slow);
        let probes = config.probes;
        let share = |part: u32| f64::from(part) / f64::from(probes);
        if share(self.failed) >= config.failure_ratio {
            Decision::StillDown(Reason::ProbesFailed { failed: self.failed, probes })
        } else if share(self.slow) >= config.slow_ratio {
            Decision::StillDown(Reason::ProbesSlow { slow: self.slow, probes })
        } else if self.settled >= probes {
            Decision::Recovered(Reason::ProbesPassed { probes })
        } else {
            Decision::Wait
        }
    }

    pub(super) fn leased(&self, now: Instant) -> u32 {
        u32::try_from(self.leases.iter().filter(|lease| lease.expires > now).count()).unwrap_or(u32::MAX)
    }

    pub(super) const fn settled(&self) -> u32 {
        self.settled
    }
}
