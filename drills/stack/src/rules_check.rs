//! `rules check`: whether a rules file would come into force, and everything that is wrong with it if not.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use rules::{Invalid, Rules};

use crate::say::say;

/// Exit code 0: valid, 1: not. One line a mistake, as compilers write them, so that editors find the place.
pub fn run(file: &Path) -> Result<ExitCode> {
    let document = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    match Rules::from_toml(&document) {
        Ok(rules) => {
            say!("{}: valid, version {}", file.display(), rules.version);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            for violation in &error.violations {
                say!("{}", line(file, violation));
            }
            let mistakes = if error.violations.len() == 1 { "mistake" } else { "mistakes" };
            say!(
                "{} {mistakes}; a service would refuse this file and keep the rules that it has",
                error.violations.len()
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

/// `rules.toml:12: downstream.payment.timeout_ms: …`; without a number where the file does not say the value itself.
fn line(file: &Path, violation: &Invalid) -> String {
    let at = violation.line.map_or_else(String::new, |line| format!(":{line}"));
    let path = if violation.path.is_empty() { String::new() } else { format!(" {}:", violation.path) };
    // A parser's message may have several lines.
    format!("{}{at}:{path} {}", file.display(), violation.reason.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line_that_leads_to_its_place() {
        let violation = Invalid { path: "chain.retries".into(), reason: "must be\nat most 10".into(), line: Some(3) };
        let file = Path::new("rules.toml");
        assert_eq!(line(file, &violation), "rules.toml:3: chain.retries: must be at most 10");
        let nowhere = Invalid { path: String::new(), line: None, ..violation };
        assert_eq!(line(file, &nowhere), "rules.toml: must be at most 10");
    }
}
