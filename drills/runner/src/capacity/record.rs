//! A whole measurement, as it is written down and told. Pure.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{
    reading::{self, Reading},
    step::Step,
    thresholds::Thresholds,
};
use crate::{
    probe::Figure,
    scenario::StackSpec,
    verdict::{self, Oracle, Verdict},
};

/// One way up.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// Of order, that were there.
    pub instances: u16,
    pub steps: Vec<Step>,
    pub reading: Option<Reading>,
    /// Why there is no reading.
    pub doubt: Option<String>,
}

/// What the shell brings home.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The steps with all instances, and with one missing.
    pub all: Vec<Step>,
    pub one_missing: Vec<Step>,
    pub interrupted: bool,
    /// Why it says nothing, whatever its figures are.
    pub doubts: Vec<String>,
    /// What was not put back as it was.
    pub unrestored: Vec<String>,
    pub oracle: Option<Oracle>,
}

#[derive(Debug, Serialize)]
pub struct Record {
    pub verdict: Verdict,
    pub reasons: Vec<String>,
    pub started_at: DateTime<Utc>,
    pub took_seconds: f64,
    pub seed: u64,
    pub step_seconds: u64,
    /// What of the rules differs from the defaults.
    pub rules: toml::Table,
    pub provider: toml::Table,
    /// With all instances, and with one missing.
    pub curves: [Curve; 2],
    /// Only where both curves say something, and nothing else is wrong.
    pub thresholds: Option<Thresholds>,
    pub oracle: Option<Oracle>,
}

/// How it was measured.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    pub started_at: DateTime<Utc>,
    pub took_seconds: f64,
    pub seed: u64,
    pub step_seconds: u64,
}

impl Curve {
    #[must_use]
    pub fn of(instances: u16, steps: Vec<Step>) -> Self {
        let read = reading::read(&steps);
        let doubt = read.as_ref().err().map(ToString::to_string);
        Self { instances, steps, reading: read.ok(), doubt }
    }

    #[must_use]
    pub fn name(&self, all: u16) -> String {
        if self.instances == all { format!("all {all} instances") } else { format!("one of {all} instances missing") }
    }

    /// What a step is, in a word; most are nothing.
    #[must_use]
    pub fn remark(&self, at: usize) -> &'static str {
        if self.steps.get(at).is_some_and(|step| step.generator.doubt.is_some()) {
            return "generator in doubt";
        }
        match &self.reading {
            Some(reading) if reading.inflection_at == at => "inflection",
            Some(reading) if reading.breakage_at == at => "breakage",
            Some(reading) if reading.noise.contains(&at) => "noise",
            _ => "",
        }
    }
}

impl Record {
    /// Judges a measurement of `instances`.
    #[must_use]
    pub fn of(system: &StackSpec, instances: u16, outcome: Outcome, method: Method) -> Self {
        let curves = [Curve::of(instances, outcome.all), Curve::of(instances.saturating_sub(1), outcome.one_missing)];
        let mut doubts = outcome.doubts;
        for curve in &curves {
            doubts.extend(curve.doubt.iter().map(|doubt| format!("{}: {doubt}", curve.name(instances))));
        }
        let violated = outcome.oracle.as_ref().is_some_and(|oracle| !oracle.clean);
        let mut failures: Vec<String> =
            violated.then(|| "the oracle found a violation".to_owned()).into_iter().collect();
        failures.extend(outcome.unrestored.iter().map(|what| format!("not restored: {what}")));
        let (verdict, reasons) = if outcome.interrupted {
            (Verdict::Aborted, vec!["interrupted".to_owned()])
        } else if !doubts.is_empty() {
            (Verdict::Inconclusive, doubts)
        } else if !failures.is_empty() {
            (Verdict::Fail, failures)
        } else {
            (Verdict::Pass, Vec::new())
        };
        let thresholds = match &curves {
            [Curve { reading: Some(all), .. }, Curve { reading: Some(missing), .. }] if verdict == Verdict::Pass => {
                Some(Thresholds::of(all, missing, instances))
            }
            _ => None,
        };
        let Method { started_at, took_seconds, seed, step_seconds } = method;
        let provider = system.provider.iter().map(|(channel, is)| (channel.clone(), is.clone().into())).collect();
        let (rules, oracle) = (system.rules.clone(), outcome.oracle);
        Self {
            verdict,
            reasons,
            started_at,
            took_seconds,
            seed,
            step_seconds,
            rules,
            provider,
            curves,
            thresholds,
            oracle,
        }
    }

    #[must_use]
    pub fn instances(&self) -> u16 {
        self.curves[0].instances
    }
}

/// As many characters are what was offered at the highest step.
const BAR: f64 = 40.0;

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.instances();
        let most = self.curves.iter().flat_map(|curve| &curve.steps).map(|step| step.offered).fold(1.0, f64::max);
        for curve in &self.curves {
            writeln!(f, "{}", curve.name(all))?;
            writeln!(f, "  {:>9} {:>7} {:>5} {:>6} {:>6} {:>6}", "offered/s", "sold/s", "%", "p50", "p95", "p99 ms")?;
            for (at, step) in curve.steps.iter().enumerate() {
                let [p50, p95, p99] =
                    step.latency.map_or(["–".to_owned(), "–".to_owned(), "–".to_owned()], |latency| {
                        [latency.p50, latency.p95, latency.p99].map(|ms| format!("{ms:.0}"))
                    });
                let percent = step.success() * 100.0;
                write!(f, "  {:>9.1} {:>7.1} {percent:>5.0} {p50:>6} {p95:>6} {p99:>6}  ", step.offered, step.goodput)?;
                // What was sold, and up to what was offered.
                let length = |rate: f64| (rate / most * BAR).round() as usize;
                let (sold, lost) = (length(step.goodput), length(step.offered).saturating_sub(length(step.goodput)));
                let bar = format!("{}{}", "█".repeat(sold), "░".repeat(lost));
                writeln!(f, "{}", format!("{bar:<width$} {}", curve.remark(at), width = BAR as usize).trim_end())?;
            }
        }
        if let Some(found) = &self.thresholds {
            let Thresholds { inflection_each, safe_each, threshold, threshold_each, .. } = found;
            let [third, half] = found.by_breakage;
            writeln!(f, "  inflection     {inflection_each:.1}/s for one instance")?;
            writeln!(f, "  safe           {safe_each:.1}/s for one instance")?;
            writeln!(f, "  threshold      {threshold:.1}/s for all {all}, {threshold_each:.1}/s for each")?;
            writeln!(f, "  by breakage    {third:.1} to {half:.1}/s for all {all}")?;
            let (admits, carries) = (found.one_missing_admits, found.one_missing_carries);
            writeln!(f, "  one missing    the others let in {admits:.1}/s and carry {carries:.1}/s")?;
        }
        verdict::write_findings(f, self.oracle.as_ref(), &self.reasons)?;
        let word = if self.verdict == Verdict::Pass { "measured".to_owned() } else { self.verdict.to_string() };
        write!(f, "  capacity       {word} after {} s", Figure(self.took_seconds.round()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capacity::sample::{self, carries, late};

    fn outcome() -> Outcome {
        let oracle = Some(Oracle { clean: true, report: json!({}) });
        Outcome {
            all: carries(42.0, sample::RATES),
            one_missing: carries(21.0, sample::HALF),
            oracle,
            ..Outcome::default()
        }
    }

    fn judged(outcome: Outcome) -> Record {
        Record::of(&StackSpec::default(), 2, outcome, sample::METHOD)
    }

    #[test]
    fn a_measurement_with_both_curves_has_thresholds() {
        let record = judged(outcome());
        assert_eq!((record.verdict, record.reasons.len()), (Verdict::Pass, 0));
        let found = record.thresholds.as_ref().unwrap();
        assert_eq!((found.inflection_each, found.instances), (20.0, 2));
        let told = record.to_string();
        for line in [
            "all 2 instances",
            "one of 2 instances missing",
            "threshold      22.4/s for all 2, 11.2/s for each",
            "measured after 71 s",
        ] {
            assert!(told.contains(line), "{line}\n{told}");
        }
        assert_eq!(told.matches(" inflection\n").count(), 2, "{told}");
        assert_eq!(told.matches(" breakage\n").count(), 2, "{told}");
    }

    #[test]
    fn a_doubt_about_either_curve_leaves_no_thresholds_and_says_which() {
        let mut doubtful = outcome();
        doubtful.one_missing[2] = late(doubtful.one_missing[2].clone());
        let record = judged(doubtful);
        assert_eq!((record.verdict, &record.thresholds), (Verdict::Inconclusive, &None));
        assert!(
            record.reasons[0].starts_with("one of 2 instances missing: the load generator"),
            "{:?}",
            record.reasons
        );
        assert!(record.to_string().contains("generator in doubt"));
    }

    #[test]
    fn steps_that_did_not_go_far_enough_are_no_capacity() {
        let record = judged(Outcome { all: carries(42.0, [10.0, 20.0]), ..outcome() });
        assert_eq!(record.verdict, Verdict::Inconclusive);
        assert_eq!(record.reasons, ["all 2 instances: no inflection up to 20.0/s: go higher"]);
    }

    #[test]
    fn a_system_that_sold_what_it_should_not_have_has_failed_whatever_it_carried() {
        let oracle = Some(Oracle { clean: false, report: json!({}) });
        let record = judged(Outcome { oracle, ..outcome() });
        assert_eq!((record.verdict, &record.thresholds), (Verdict::Fail, &None));
        let record = judged(Outcome { unrestored: vec!["order is dead".to_owned()], ..outcome() });
        assert_eq!(record.reasons, ["not restored: order is dead"]);
    }

    #[test]
    fn an_interrupted_measurement_is_aborted_and_nothing_else() {
        let record = judged(Outcome { interrupted: true, one_missing: Vec::new(), ..outcome() });
        assert_eq!((record.verdict.exit_code(), record.reasons), (3, vec!["interrupted".to_owned()]));
    }
}
