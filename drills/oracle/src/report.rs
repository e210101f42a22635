//! What the oracle found, in figures.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

/// Of offenders, and of what is listed apart: enough to begin looking.
const SHOWN: usize = 5;

/// All that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What still moved when the patience ended; empty: the system was quiet.
    pub unquiet: Vec<Finding>,
    #[serde(rename = "waited_ms", serialize_with = "millis")]
    pub waited: Duration,
    pub invariants: Vec<Verdict>,
}

/// One invariant.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// As in DESIGN, section 14.
    pub number: u8,
    pub title: &'static str,
    /// How many orders, products, answers … were looked at.
    pub checked: usize,
    /// How many of them break it; one may do so in several ways.
    pub violated: usize,
    pub offenders: Vec<Finding>,
    /// What waits for a person and is no violation.
    pub apart: Vec<Finding>,
}

/// What is wrong with what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// `order 0199…`, `product TEA-1`.
    pub subject: String,
    pub what: String,
}

impl Finding {
    pub(crate) fn new(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self { subject: subject.into(), what: what.into() }
    }

    pub(crate) fn order(id: impl fmt::Display, what: impl Into<String>) -> Self {
        Self::new(format!("order {id}"), what)
    }
}

impl Report {
    #[must_use]
    pub fn clean(&self) -> bool {
        self.invariants.iter().all(Verdict::holds)
    }
}

impl Verdict {
    pub(crate) fn new(number: u8, title: &'static str, checked: usize) -> Self {
        Self { number, title, checked, violated: 0, offenders: Vec::new(), apart: Vec::new() }
    }

    pub(crate) fn with(mut self, mut offenders: Vec<Finding>) -> Self {
        let subjects: std::collections::BTreeSet<&str> = offenders.iter().map(|f| f.subject.as_str()).collect();
        self.violated = subjects.len();
        offenders.sort();
        self.offenders = offenders;
        self
    }

    pub(crate) fn with_apart(mut self, mut apart: Vec<Finding>) -> Self {
        apart.sort();
        self.apart = apart;
        self
    }

    #[must_use]
    pub fn holds(&self) -> bool {
        self.violated == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unquiet.is_empty() {
            writeln!(f, "quiet after {:.1} s", self.waited.as_secs_f64())?;
        } else {
            writeln!(f, "not quiet after {:.1} s:", self.waited.as_secs_f64())?;
            list(f, &self.unquiet)?;
        }
        for verdict in &self.invariants {
            let Verdict { number, title, checked, violated, .. } = verdict;
            let word = if verdict.holds() { "holds" } else { "VIOLATED" };
            writeln!(f, "{number} {title:<62} {word:<8} {checked:>6} checked {violated:>5} violated")?;
            list(f, &verdict.offenders)?;
            if !verdict.apart.is_empty() {
                writeln!(f, "    apart, for a person to decide: {}", verdict.apart.len())?;
                list(f, &verdict.apart)?;
            }
        }
        f.write_str(if self.clean() { "clean" } else { "violated" })
    }
}

fn list(f: &mut fmt::Formatter<'_>, findings: &[Finding]) -> fmt::Result {
    for Finding { subject, what } in findings.iter().take(SHOWN) {
        writeln!(f, "    {subject}: {what}")?;
    }
    if findings.len() > SHOWN {
        writeln!(f, "    … and {} more", findings.len() - SHOWN)?;
    }
    Ok(())
}

fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_how_many_and_shows_the_first_few() {
        let found = (0..7).map(|n| Finding::order(n, "charged twice")).collect();
        let verdict = Verdict::new(2, "one charge", 9).with(found).with_apart(vec![Finding::order(8, "in review")]);
        let report = Report { unquiet: vec![], waited: Duration::from_millis(1_500), invariants: vec![verdict] };
        let text = report.to_string();
        for said in ["quiet after 1.5 s", "9 checked     7 violated", "order 4: charged twice", "… and 2 more"] {
            assert!(text.contains(said), "{text}");
        }
        assert!(text.contains("order 8: in review") && text.ends_with("violated") && !report.clean(), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["invariants"][0]["violated"], &json["waited_ms"]), (&7.into(), &1500.0.into()));
    }

    #[test]
    fn one_offender_in_two_ways_is_one() {
        let found = vec![Finding::order(1, "a"), Finding::order(1, "b")];
        assert_eq!(Verdict::new(1, "t", 1).with(found).violated, 1);
    }
}
