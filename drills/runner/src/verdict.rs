//! All checks of a run together: one word, the reasons for it, and an exit code.

use std::{collections::BTreeMap, fmt, time::Duration};

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::{
    guards::Guards,
    log::{Log, Timeline},
    probe::{self, Checked, Figure},
    scenario::{FaultSpec, Scenario, Window},
    timelines::Timelines,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Fail,
    Inconclusive,
    Aborted,
}

impl Verdict {
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 2,
            Self::Aborted => 3,
        }
    }
}

/// What the shell brings home.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Why the run was ended before its end.
    pub aborted: Option<String>,
    /// Why it says nothing, whatever its figures are.
    pub doubts: Vec<String>,
    /// What was not put back as it was.
    pub unrestored: Vec<String>,
    pub oracle: Option<Oracle>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Oracle {
    pub clean: bool,
    /// What it said, in full.
    pub report: serde_json::Value,
}

/// A run, as it is written down.
#[derive(Debug, Serialize)]
pub struct Record {
    pub id: String,
    pub title: String,
    pub story: String,
    pub source: String,
    /// The page of the pattern that it is about.
    pub pattern: Option<String>,
    pub seed: u64,
    pub guards: Guards,
    /// Of a control, what was taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
    pub verdict: Verdict,
    pub reasons: Vec<String>,
    pub started_at: DateTime<Utc>,
    pub took_seconds: f64,
    /// What of the rules differs from the defaults.
    pub rules: toml::Table,
    pub faults: Vec<FaultSpec>,
    /// How often the faults of each link were met.
    pub applied: BTreeMap<String, u64>,
    pub steady_state: Vec<Checked>,
    pub proof: Vec<Checked>,
    pub expect: Vec<Checked>,
    pub recovered_after_seconds: Option<f64>,
    pub oracle: Option<Oracle>,
    pub load: Option<load::Report>,
    pub timelines: Timelines,
    /// The same drill without guards, where both were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unguarded: Option<Box<Record>>,
    /// The same drill without the guard that it is about, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Box<Record>>,
}

/// Judges a run. Pure.
#[must_use]
pub fn judge(scenario: &Scenario, guards: Guards, log: &Log, timeline: &Timeline, outcome: Outcome) -> Record {
    let all = |checks: &[_], window| -> Vec<Checked> {
        checks.iter().map(|check| probe::check(check, log, timeline, window)).collect()
    };
    let steady_state = all(&scenario.steady_state, Window::Before);
    let mut proof = all(&scenario.proof, Window::During);
    proof.extend(met(&scenario.faults, log));
    let expect = all(&scenario.expect, Window::During);
    let recovered = probe::recovered(&scenario.steady_state, log, timeline);

    let not_held = |checks: &[Checked], what: &str| -> Vec<String> {
        checks.iter().filter(|c| !c.holds).map(|c| format!("{what}: {}", sentence(c))).collect()
    };
    let mut failures = not_held(&expect, "expected");
    if let Some(within) = scenario.recovery_within {
        match recovered {
            Some(after) if after <= within.0 => {}
            Some(after) => failures.push(format!(
                "recovered after {} s instead of {} s",
                Figure(after.as_secs_f64()),
                Figure(within.0.as_secs_f64())
            )),
            None => failures.push("did not recover by the end of the load".to_owned()),
        }
    }
    failures.extend(outcome.oracle.as_ref().filter(|o| !o.clean).map(|_| "the oracle found a violation".to_owned()));
    failures.extend(outcome.unrestored.iter().map(|what| format!("not restored: {what}")));
    let mut doubts = outcome.doubts;
    doubts.extend(not_held(&steady_state, "not steady before"));
    doubts.extend(not_held(&proof, "not felt"));
    let (verdict, reasons) = match outcome.aborted {
        Some(reason) => (Verdict::Aborted, vec![reason]),
        None if !doubts.is_empty() => (Verdict::Inconclusive, doubts),
        None if !failures.is_empty() => (Verdict::Fail, failures),
        None => (Verdict::Pass, Vec::new()),
    };
    Record {
        id: scenario.id.clone(),
        title: scenario.title.clone(),
        story: scenario.story.clone(),
        source: scenario.source.clone(),
        pattern: scenario.pattern.clone(),
        seed: scenario.seed,
        guards,
        without: scenario.control.as_ref().filter(|_| guards == Guards::TakenOut).map(|c| c.without.clone()),
        verdict,
        reasons,
        started_at: Utc::now(),
        took_seconds: 0.0,
        rules: scenario.stack.rules.clone(),
        faults: scenario.faults.clone(),
        applied: log.applied.clone(),
        steady_state,
        proof,
        expect,
        recovered_after_seconds: recovered.map(|after: Duration| after.as_secs_f64()),
        oracle: outcome.oracle,
        load: None,
        timelines: Timelines::of(log, timeline),
        unguarded: None,
        control: None,
    }
}

impl Record {
    /// With its control, which has to fail: a drill that passes without the guard that it is about says nothing of that
    /// guard. In what way it fails does not matter; without its guard a system may well be stuck.
    #[must_use]
    pub fn against(mut self, control: Self) -> Self {
        let without = control.without.as_deref().unwrap_or("its guard");
        let (verdict, reason) = match control.verdict {
            Verdict::Fail => (Verdict::Pass, String::new()),
            Verdict::Pass => (Verdict::Fail, format!("cannot fail: it passes without {without} as well")),
            Verdict::Inconclusive | Verdict::Aborted => {
                (Verdict::Inconclusive, format!("the control says nothing: {}", control.headline()))
            }
        };
        if verdict != Verdict::Pass && self.verdict == Verdict::Pass {
            self.verdict = verdict;
            self.reasons.push(reason);
        }
        self.control = Some(Box::new(control));
        self
    }

    /// The other run of the same drill, if there was one.
    #[must_use]
    pub fn beside(&self) -> Option<&Self> {
        self.unguarded.as_deref().or(self.control.as_deref())
    }

    /// The verdict's reason in one line.
    #[must_use]
    pub fn headline(&self) -> String {
        match (self.reasons.as_slice(), self.recovered_after_seconds) {
            ([], Some(seconds)) => format!("all held, recovered after {} s", Figure(seconds)),
            ([], None) => "all held".to_owned(),
            ([one], _) => one.clone(),
            ([first, more @ ..], _) => format!("{first} (and {} more)", more.len()),
        }
    }
}

/// Every link that was broken must have met somebody, asked for or not. What a closed port turned away is not seen by
/// the link, so there the scenario's own proof has to do.
fn met(faults: &[FaultSpec], log: &Log) -> Vec<Checked> {
    let links: std::collections::BTreeSet<&String> =
        faults.iter().filter(|fault| fault.kind != "refuse").filter_map(|fault| fault.link.as_ref()).collect();
    links
        .into_iter()
        .map(|link| {
            let count = log.applied.get(link).copied().unwrap_or(0);
            let what = format!("met the fault on {link}");
            Checked { what, value: Some(count as f64), bound: "≥ 1".to_owned(), holds: count > 0 }
        })
        .collect()
}

fn sentence(checked: &Checked) -> String {
    let value = checked.value.map_or_else(|| "nothing observed".to_owned(), |value| Figure(value).to_string());
    format!("{} {}, was {value}", checked.what, checked.bound)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Aborted => "aborted",
        })
    }
}

/// What the oracle said and what speaks against it all, a line each.
pub fn write_findings(f: &mut fmt::Formatter<'_>, oracle: Option<&Oracle>, reasons: &[String]) -> fmt::Result {
    let said = match oracle {
        Some(oracle) if oracle.clean => "clean",
        Some(_) => "VIOLATED, see the JSON",
        None => "not consulted",
    };
    writeln!(f, "  oracle         {said}")?;
    reasons.iter().try_for_each(|reason| writeln!(f, "  because        {reason}"))
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.id, self.title)?;
        for (title, checks) in
            [("steady before", &self.steady_state), ("felt", &self.proof), ("expected", &self.expect)]
        {
            for checked in checks {
                let word = if checked.holds { "yes" } else { "NO" };
                let value = checked.value.map_or_else(|| "–".to_owned(), |value| Figure(value).to_string());
                writeln!(f, "  {title:<14} {word:<4} {:<58} {value:>10}  {}", checked.what, checked.bound)?;
            }
        }
        if let Some(seconds) = self.recovered_after_seconds {
            writeln!(f, "  recovered      after {} s", Figure(seconds))?;
        }
        write_findings(f, self.oracle.as_ref(), &self.reasons)?;
        write!(f, "  verdict        {} after {} s", self.verdict, Figure(self.took_seconds.round()))?;
        if let Some(other) = self.beside() {
            write!(f, "\n  {:<14} {}, {}", other.guards.as_str(), other.verdict, other.headline())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use load::{Kind, Outcome as Ended};

    use super::*;
    use crate::{log::Seen, scenario::read};

    const TEXT: &str = r#"
id = "a"
title = "t"
story = "s"
source = "x"
max_duration = "2m"
recovery_within = "5s"
load = { rate = 10, duration = "30s" }
steady_state = [{ probe = "success_ratio", min = 0.99 }]
faults = [{ at = "10s", for = "10s", link = "order->payment", kind = "hang" }]
expect = [{ probe = "success_ratio", min = 0.5 }]
"#;

    /// One request a tenth of a second, refused from `bad` on for so long.
    fn run(bad: std::ops::Range<u64>, failing: u64, applied: u64, outcome: Outcome) -> Record {
        let timeline = Timeline {
            warm_up: Duration::from_secs(3),
            broken: Duration::from_secs(10),
            restored: Duration::from_secs(20),
            end: Duration::from_secs(30),
        };
        let answers = (0..300).map(|n| {
            let due = Duration::from_millis(n * 100);
            let failed = bad.contains(&due.as_secs()) && n % 10 < failing;
            let status = if failed { 503 } else { 201 };
            Seen {
                due,
                kind: Kind::PlaceOrder,
                outcome: Ended::Status(status),
                latency: Duration::from_millis(9),
                hot: false,
                tries: 1,
            }
        });
        let applied = BTreeMap::from([("order->payment".to_owned(), applied)]);
        let log = Log { answers: answers.collect(), applied, ..Log::default() };
        judge(&read("a.toml", TEXT).unwrap(), Guards::On, &log, &timeline, outcome)
    }

    fn verdict(bad: std::ops::Range<u64>, failing: u64, applied: u64) -> Verdict {
        run(bad, failing, applied, Outcome::default()).verdict
    }

    #[test]
    fn a_drill_passes_when_all_holds_and_fails_when_an_expectation_or_the_recovery_does_not() {
        assert_eq!(verdict(10..20, 3, 9), Verdict::Pass);
        assert_eq!(verdict(10..20, 8, 9), Verdict::Fail);
        assert_eq!(verdict(10..24, 3, 9), Verdict::Pass, "recovered after 4 s");
        assert_eq!(verdict(10..27, 3, 9), Verdict::Fail, "7 s are too long");
        assert_eq!(verdict(10..30, 3, 9), Verdict::Fail, "never");
    }

    #[test]
    fn a_fault_that_was_not_felt_is_no_pass_and_no_failure() {
        assert_eq!(verdict(10..20, 3, 0), Verdict::Inconclusive);
        assert_eq!(verdict(10..20, 8, 0), Verdict::Inconclusive);
    }

    #[test]
    fn a_system_that_was_not_well_before_is_not_judged() {
        assert_eq!(verdict(4..9, 5, 9), Verdict::Inconclusive);
    }

    #[test]
    fn an_abort_says_why_and_nothing_else_counts() {
        let outcome = Outcome { aborted: Some("interrupted".into()), ..Outcome::default() };
        let record = run(10..20, 8, 0, outcome);
        assert_eq!((record.verdict, record.reasons), (Verdict::Aborted, vec!["interrupted".to_owned()]));
    }

    #[test]
    fn a_violation_that_the_oracle_finds_or_a_fault_that_stays_is_a_failure() {
        let oracle = Some(Oracle { clean: false, report: serde_json::Value::Null });
        assert_eq!(run(10..20, 3, 9, Outcome { oracle, ..Outcome::default() }).verdict, Verdict::Fail);
        let unrestored = vec!["payment is stopped".to_owned()];
        assert_eq!(run(10..20, 3, 9, Outcome { unrestored, ..Outcome::default() }).verdict, Verdict::Fail);
    }

    #[test]
    fn the_generators_own_trouble_is_no_verdict_on_the_system() {
        let doubts = vec!["generator late".to_owned()];
        assert_eq!(run(10..20, 8, 9, Outcome { doubts, ..Outcome::default() }).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn the_headline_is_the_first_reason_and_says_that_there_are_more() {
        assert_eq!(run(10..20, 3, 9, Outcome::default()).headline(), "all held, recovered after 0 s");
        let twice = run(10..30, 8, 9, Outcome::default()).headline();
        assert!(twice.starts_with("expected: share of 2xx during") && twice.ends_with("(and 1 more)"), "{twice}");
    }

    #[test]
    fn a_comparison_is_judged_by_the_guarded_run_and_tells_the_other_verdict() {
        let mut record = run(10..20, 3, 9, Outcome::default());
        let other = Record { guards: Guards::Off, ..run(10..20, 8, 9, Outcome::default()) };
        record.unguarded = Some(Box::new(other));
        let (text, json) = (record.to_string(), serde_json::to_value(&record).unwrap());
        assert!(text.contains("guards off     fail, expected: share of 2xx during"), "{text}");
        assert_eq!((&json["verdict"], &json["unguarded"]["verdict"]), (&"pass".into(), &"fail".into()));
        assert_eq!(record.verdict.exit_code(), 0);
    }

    #[test]
    fn a_drill_that_passes_without_its_guard_is_a_defect_and_one_whose_control_says_nothing_says_nothing() {
        let passed = || run(10..20, 3, 9, Outcome::default());
        let failed = || run(10..20, 8, 9, Outcome::default());
        let with = |control: Record| {
            let without = Some("the breaker before payment".to_owned());
            passed().against(Record { guards: Guards::TakenOut, without, ..control })
        };
        let good = with(failed());
        assert_eq!((good.verdict, good.reasons.len()), (Verdict::Pass, 0));
        assert!(serde_json::to_value(&good).unwrap()["control"]["verdict"] == "fail");
        let toothless = with(passed());
        assert_eq!(toothless.verdict, Verdict::Fail);
        assert_eq!(toothless.headline(), "cannot fail: it passes without the breaker before payment as well");
        assert_eq!(with(run(10..20, 3, 0, Outcome::default())).verdict, Verdict::Inconclusive);
        let oracle = Some(Oracle { clean: false, report: serde_json::Value::Null });
        let stuck = with(run(10..20, 8, 9, Outcome { oracle, ..Outcome::default() }));
        assert_eq!(stuck.verdict, Verdict::Pass, "what it lacks is what would have brought it to an end");
        let own = failed().against(passed());
        assert_eq!((own.verdict, own.reasons.len()), (Verdict::Fail, 1), "its own failure is told and nothing else");
    }

    #[test]
    fn exit_codes_are_the_published_ones() {
        let all = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive, Verdict::Aborted];
        assert_eq!(all.map(Verdict::exit_code), [0, 1, 2, 3]);
    }
}
