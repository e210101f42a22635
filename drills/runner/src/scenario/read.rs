//! From a file's text to a scenario, or to everything that is wrong with it.

use std::fmt;

use super::{Scenario, check, place};

/// `scenario.toml:12: faults[0].kind: …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub file: String,
    pub line: Option<usize>,
    /// Empty where the file is not even TOML.
    pub key: String,
    pub reason: String,
}

/// The scenario that `text`, the content of `file`, describes. What is no TOML or has the wrong shape is one mistake;
/// of what has the right shape, all are named.
pub fn read(file: &str, text: &str) -> Result<Scenario, Vec<Mistake>> {
    let mistake = |line: Option<usize>, key: String, reason: &str| {
        vec![Mistake { file: file.to_owned(), line, key, reason: reason.trim().replace('\n', " ") }]
    };
    let at = |span: Option<std::ops::Range<usize>>| span.map(|span| place::line_at(text, span.start));
    let document = toml::Deserializer::parse(text).map_err(|e| mistake(at(e.span()), String::new(), e.message()))?;
    let scenario: Scenario = serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let key = if path == "." { String::new() } else { path };
        let line = place::line_of(text, &key).or_else(|| at(inner.span()));
        mistake(line, key, inner.message())
    })?;
    let wrong = check::all(&scenario);
    if wrong.is_empty() {
        return Ok(scenario);
    }
    let located = wrong.into_iter().map(|(key, reason)| {
        let line = place::line_of(text, &key);
        Mistake { file: file.to_owned(), line, key, reason }
    });
    Err(located.collect())
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
id = "a"
title = "t"
story = "s"
source = "x"
max_duration = "2m"
[load]
rate = 10
duration = "30s"
[[steady_state]]
probe = "success_ratio"
min = 0.99
[[faults]]
at = "10s"
for = "5s"
link = "order->payment"
kind = "hang"
[[expect]]
probe = "latency"
percentile = 99
window = "during"
max = 500
"#;

    fn told(text: &str) -> Vec<String> {
        read("a.toml", text).unwrap_err().iter().map(Mistake::to_string).collect()
    }

    #[test]
    fn a_good_file_is_read() {
        let scenario = read("a.toml", GOOD).unwrap();
        assert_eq!((scenario.id.as_str(), scenario.faults.len(), scenario.seed), ("a", 1, 1));
    }

    #[test]
    fn a_mistake_names_file_line_and_key() {
        assert_eq!(told(&GOOD.replace("kind = \"hang\"", "kind = \"hnag\"")).len(), 1);
        for (good, bad, expected) in [
            ("kind = \"hang\"", "kind = \"hnag\"", "a.toml:17: faults[0].kind: must be one of"),
            ("order->payment", "order->paymnt", "a.toml:16: faults[0].link: there is no such link"),
            ("for = \"5s\"", "for = \"5 seconds\"", "a.toml:15: faults[0].for: a duration is a number"),
            ("for = \"5s\"", "for = \"40s\"", "a.toml:15: faults[0].for: must end before the load does"),
            ("rate = 10", "rat = 10", "a.toml:8: load.rat: unknown field"),
            ("percentile = 99", "percentile = 101", "a.toml:20: expect[0].percentile:"),
            ("max = 500", "", "a.toml:18: expect[0]: needs a bound"),
            ("title = \"t\"", "title = ", "a.toml:3"),
            ("probe = \"success_ratio\"", "probe = \"luck\"", "a.toml:11: steady_state[0].probe: unknown variant"),
        ] {
            let told = told(&GOOD.replace(good, bad));
            assert!(told[0].starts_with(expected), "{expected}\n{told:?}");
        }
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let bad = GOOD
            .replace("\"hang\"", "\"latency\"")
            .replace("percentile = 99", "")
            .replace("id = \"a\"", "id = \"A b\"");
        let keys: Vec<String> = read("a.toml", &bad).unwrap_err().into_iter().map(|m| m.key).collect();
        assert_eq!(keys, ["id", "faults[0].latency_ms", "expect[0].percentile"]);
    }

    #[test]
    fn rules_are_checked_like_any_rules() {
        let bad = format!("{GOOD}\n[stack.rules.downstream.payment]\ntimeout_ms = 9000\n");
        let told = told(&bad);
        assert!(told[0].contains("stack.rules.") && told[0].contains("timeout_ms"), "{told:?}");
    }
}
