//! The metrics that the services export, read from where their code names them, those of the gateway that Prometheus keeps,
//! and those that an expression asks for.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::LazyLock};

use crate::{
    checkout,
    yaml::{document, items, text},
};

/// What Prometheus itself knows of every target, and of the alerts.
const ITS_OWN: [&str; 2] = ["up", "ALERTS"];
/// What makes a metric in our code, the macros and the closures around them.
const MAKERS: [&str; 4] = ["counter", "gauge", "counted", "histogram"];

static EXPORTED: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut found = BTreeSet::from(ITS_OWN.map(str::to_owned));
    for source in sources() {
        found.extend(named(&fs::read_to_string(source).unwrap()));
    }
    found.extend(kept_of_the_gateway());
    found
});

/// That Envoy has them is looked at by the gateway's own tests.
fn kept_of_the_gateway() -> Vec<String> {
    let file = document("deploy/prometheus/prometheus.yml");
    let job = items(&file["scrape_configs"]).find(|job| job["job_name"] == "gateway").unwrap();
    let keep = &job["metric_relabel_configs"][0];
    assert!(keep["action"] == "keep" && keep["source_labels"] == serde_json::json!(["__name__"]), "{keep}");
    text(&keep["regex"]).split('|').map(str::to_owned).collect()
}

/// The metrics that `expression` asks for and nobody exports.
pub fn unknown(expression: &str) -> Vec<String> {
    asked(expression).into_iter().filter(|name| !EXPORTED.contains(name)).collect()
}

/// The code of the services, without their tests.
fn sources() -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = ["shared", "services"]
        .into_iter()
        .flat_map(|folder| fs::read_dir(checkout().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    let mut sources = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    sources
}

/// The names behind a maker's opening bracket; of a histogram, those that it is scraped by.
fn named(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in source.match_indices('(') {
        let Some((name, _)) = source[at + 1..].trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'))
        else {
            continue;
        };
        let before = source[..at].trim_end_matches('!');
        let maker = before.rsplit(|c: char| !is_word(c)).next().unwrap_or_default();
        let maker = maker.strip_prefix("describe_").unwrap_or(maker);
        if !MAKERS.contains(&maker) || name.is_empty() || !name.chars().all(is_word) {
            continue;
        }
        if maker == "histogram" {
            found.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        } else {
            found.insert(name.to_owned());
        }
    }
    found
}

/// The names in a PromQL expression that are no functions and belong to no labels, durations or grammar.
fn asked(expression: &str) -> BTreeSet<String> {
    const GRAMMAR: [&str; 13] = [
        "and",
        "or",
        "unless",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "offset",
        "bool",
        "inf",
        "nan",
    ];
    const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '"' => skip(&rest[1..], '"'),
            '{' => skip(rest, '}'),
            '[' => skip(rest, ']'),
            _ if is_word(first) || first == ':' => {
                let end = rest.find(|c: char| !is_word(c) && c != ':').unwrap_or(rest.len());
                let (word, behind) = rest.split_at(end);
                let next = behind.trim_start();
                // `sum(…)`, and `sum by (…) (…)`.
                let calls = ["(", "by ", "without "].iter().any(|start| next.starts_with(start));
                if !first.is_ascii_digit() && !calls && !GRAMMAR.contains(&word) {
                    found.insert(word.to_owned());
                }
                if calls && BEFORE_LABELS.contains(&word) { skip(behind, ')') } else { behind }
            }
            _ => &rest[first.len_utf8()..],
        };
    }
    found
}

/// What comes after the next `end`.
fn skip(text: &str, end: char) -> &str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[test]
fn the_code_names_what_it_exports() {
    let names = named(
        "counter!(\n  \"a_total\", \"b\" => c); describe_gauge!(\"d\", \"e\"); histogram!(\"f_seconds\"); g(\"h\")",
    );
    let expected = ["a_total", "d", "f_seconds_bucket", "f_seconds_count", "f_seconds_sum"];
    assert_eq!(names, BTreeSet::from(expected.map(str::to_owned)));
    assert!(EXPORTED.len() > 80, "only {} metrics were found: does this test still read the code?", EXPORTED.len());
    for name in
        ["http_requests_total", "stability_breaker_state", "stability_quota_admitted_locally_total", "outbox_backlog"]
    {
        assert!(EXPORTED.contains(name), "{name}");
    }
    let of_the_gateway = kept_of_the_gateway();
    assert!(
        of_the_gateway.len() > 10 && of_the_gateway.iter().all(|name| name.chars().all(is_word)),
        "{of_the_gateway:?}"
    );
}

#[test]
fn an_expression_asks_for_its_metrics_and_for_nothing_else() {
    let expression = r#"sum by (job, le) (rate(a_bucket{job="x",y!~"z(w)"}[5m])) / on (job) group_left (k) b > 0.05
        or (c unless d offset 15m) and on (job) (up offset 1h == 1) or vector(0)"#;
    assert_eq!(asked(expression), BTreeSet::from(["a_bucket", "b", "c", "d", "up"].map(str::to_owned)));
    assert_eq!(unknown("no_such_metric + up"), ["no_such_metric"]);
}
