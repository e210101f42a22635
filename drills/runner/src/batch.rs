//! Several drills, one after the other: what they came to together. Pure.

use std::fmt;

use crate::{
    guards::Guards,
    probe::Figure,
    verdict::{Record, Verdict},
};

/// A drill that is over.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: String,
    pub title: String,
    pub verdict: Verdict,
    /// Of the same drill without its guards, or without one, where that was asked for.
    pub beside: Option<(Guards, Verdict)>,
    pub seconds: f64,
    /// Why, in a line.
    pub headline: String,
    /// The file name of its page.
    pub report: Option<String>,
}

impl Row {
    #[must_use]
    pub fn of(record: &Record, report: Option<String>) -> Self {
        let beside = record.beside();
        Self {
            id: record.id.clone(),
            title: record.title.clone(),
            verdict: record.verdict,
            beside: beside.map(|record| (record.guards, record.verdict)),
            seconds: record.took_seconds + beside.map_or(0.0, |record| record.took_seconds),
            headline: record.headline(),
            report,
        }
    }

    /// One that could not be run, or was not.
    #[must_use]
    pub fn without_record(id: &str, title: &str, verdict: Verdict, why: &str) -> Self {
        let (id, title, headline) = (id.to_owned(), title.to_owned(), why.to_owned());
        Self { id, title, verdict, beside: None, seconds: 0.0, headline, report: None }
    }
}

/// What the other runs are, where there were any.
#[must_use]
pub fn beside(rows: &[Row]) -> Option<Guards> {
    rows.iter().find_map(|row| row.beside).map(|(guards, _)| guards)
}

/// 1 where anything failed; else 3 where something was ended early, else 2 where something says nothing, else 0.
#[must_use]
pub fn exit_code(rows: &[Row]) -> u8 {
    let worst = [Verdict::Fail, Verdict::Aborted, Verdict::Inconclusive];
    let found = worst.into_iter().find(|verdict| rows.iter().any(|row| row.verdict == *verdict));
    found.unwrap_or(Verdict::Pass).exit_code()
}

/// For people, a line a drill.
#[derive(Debug)]
pub struct Table<'a>(pub &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(rows) = self;
        let width = rows.iter().map(|row| row.id.len()).max().unwrap_or(0).max("drill".len());
        let other = beside(rows);
        let without = |word: String| if other.is_some() { format!("  {word:<15}") } else { String::new() };
        let head = without(other.map_or("", Guards::as_str).to_owned());
        let title = format!("{:<width$}", "drill");
        writeln!(f, "{title}  {:<12}{head}  {:>7}  why", "verdict", "seconds")?;
        for row in *rows {
            let open = without(row.beside.map(|(_, verdict)| verdict.to_string()).unwrap_or_default());
            let (id, verdict, seconds) = (&row.id, row.verdict, Figure(row.seconds.round()).to_string());
            writeln!(f, "{id:<width$}  {verdict:<12}{open}  {seconds:>7}  {}", row.headline)?;
        }
        let of = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        let all = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive, Verdict::Aborted];
        let counts = all.into_iter().filter(|verdict| of(*verdict) > 0);
        let counts: Vec<String> = counts.map(|verdict| format!("{} {verdict}", of(verdict))).collect();
        write!(f, "{}", counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, verdict: Verdict) -> Row {
        Row { seconds: 61.4, ..Row::without_record(id, "t", verdict, "all held") }
    }

    fn code(verdicts: &[Verdict]) -> u8 {
        exit_code(&verdicts.iter().map(|verdict| row("a", *verdict)).collect::<Vec<_>>())
    }

    #[test]
    fn one_failure_fails_all_and_a_doubt_is_told_only_where_nothing_is_worse() {
        use Verdict::{Aborted, Fail, Inconclusive, Pass};
        assert_eq!(code(&[Pass, Pass]), 0);
        assert_eq!(code(&[Pass, Fail, Inconclusive, Aborted]), 1);
        assert_eq!(code(&[Pass, Inconclusive]), 2);
        assert_eq!(code(&[Inconclusive, Aborted, Pass]), 3);
        assert_eq!(code(&[]), 0);
    }

    #[test]
    fn the_table_has_a_line_a_drill_in_columns_and_counts_at_its_end() {
        let rows = [row("short", Verdict::Pass), row("a-longer-name", Verdict::Inconclusive)];
        let text = Table(&rows).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "drill          verdict       seconds  why",
                "short          pass               61  all held",
                "a-longer-name  inconclusive       61  all held",
                "1 pass, 1 inconclusive",
            ]
        );
    }

    #[test]
    fn a_comparison_has_a_column_for_the_other_verdict() {
        let rows = [Row { beside: Some((Guards::Off, Verdict::Fail)), ..row("a", Verdict::Pass) }];
        let text = Table(&rows).to_string();
        assert!(text.lines().next().unwrap().contains("guards off"), "{text}");
        assert!(text.lines().nth(1).unwrap().contains("pass          fail"), "{text}");
    }
}
