//! A sustained rate and a burst, both stated. governor's `per_second(10)` takes the burst from the rate, and so admits
//! 20 in the first second; here nobody gets a burst that was not written down.

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

/// Finer than this, the nanoseconds between two operations are too few to tell rates apart.
const FASTEST: f64 = 1_000_000.0;
/// The longest that an emptied bucket may take to fill. The clock's origin lies further back than this.
pub(super) const LONGEST_FILL: Duration = Duration::from_secs(86_400);

/// What a bucket admits: over any window at most `per_second × window + burst`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Sustained rate, operations a second; 0.5 is one in two seconds.
    pub per_second: f64,
    /// What may come at once, after a rest. 1 = an even pace only.
    pub burst: u32,
}

/// A configuration that cannot come into force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    pub field: String,
    pub reason: String,
}

impl Invalid {
    pub(super) fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: field.to_owned(), reason: reason.into() }
    }

    pub(super) fn within(mut self, path: &str) -> Self {
        self.field = format!("{path}.{}", self.field);
        self
    }
}

impl Quota {
    #[must_use]
    pub const fn new(per_second: f64, burst: u32) -> Self {
        Self { per_second, burst }
    }

    pub fn validate(&self) -> Result<(), Invalid> {
        self.shape().map(|_| ())
    }

    pub(super) fn shape(&self) -> Result<Shape, Invalid> {
        let rate = self.per_second;
        if !(rate.is_finite() && rate > 0.0 && rate <= FASTEST) {
            return Err(Invalid::new("per_second", format!("{rate} is not above 0 and at most {FASTEST}")));
        }
        let Some(burst) = NonZeroU32::new(self.burst) else {
            return Err(Invalid::new("burst", "0 would admit nothing, ever"));
        };
        // Rounded up, so that the rate is never above what was asked for. A rate so low that this saturates fails below.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and `as` saturates")]
        let cell = (1e9 / rate).ceil() as u64;
        match cell.checked_mul(u64::from(burst.get())) {
            Some(fill) if Duration::from_nanos(fill) <= LONGEST_FILL => Ok(Shape { cell, burst, fill }),
            _ => {
                Err(Invalid::new("burst", format!("an emptied bucket would take longer than {LONGEST_FILL:?} to fill")))
            }
        }
    }
}

/// A valid quota in whole nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Between two operations at the sustained rate.
    pub cell: u64,
    pub burst: NonZeroU32,
    /// From empty to full: `cell × burst`.
    pub fill: u64,
}

impl Shape {
    /// The same for governor.
    pub fn governor(&self) -> governor::Quota {
        // A cell is never zero, so the fallback, one a second, is never taken; it is there instead of a panic.
        governor::Quota::with_period(Duration::from_nanos(self.cell))
            .unwrap_or(governor::Quota::per_second(NonZeroU32::MIN))
            .allow_burst(self.burst)
    }

    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.fill)
    }
}
