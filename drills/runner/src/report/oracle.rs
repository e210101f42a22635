//! What the oracle said, for people.

use std::fmt::Write;

use anyhow::Result;
use serde::Deserialize;

use super::html::text;
use crate::verdict::Oracle;

/// Of its report, what is shown; all of it is in the record.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    unquiet: Vec<Finding>,
    invariants: Vec<Invariant>,
}

#[derive(Deserialize)]
struct Invariant {
    number: u64,
    title: String,
    checked: u64,
    violated: u64,
    #[serde(default)]
    offenders: Vec<Finding>,
    #[serde(default)]
    apart: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    subject: String,
    what: String,
}

/// Of one kind: enough to begin looking.
const SHOWN: usize = 5;

pub fn section(body: &mut String, oracle: Option<&Oracle>) -> Result<()> {
    let Some(oracle) = oracle else {
        body.push_str("<p>Not consulted.</p>\n");
        return Ok(());
    };
    let Ok(said) = serde_json::from_value::<Said>(oracle.report.clone()) else {
        let word = if oracle.clean { "Clean." } else { "<span class=\"no\">VIOLATED.</span>" };
        writeln!(body, "<p>{word} Its report is in the record.</p>")?;
        return Ok(());
    };
    body.push_str("<table>\n<tr><th>invariant</th><th class=\"number\">looked at</th><th>holds</th></tr>\n");
    for Invariant { number, title, checked, violated, offenders, apart } in &said.invariants {
        let holds = if *violated == 0 { "yes".to_owned() } else { format!("<span class=\"no\">NO: {violated}</span>") };
        write!(body, "<tr><td>{number}. {}", text(title))?;
        list(body, offenders)?;
        if !apart.is_empty() {
            body.push_str("<br><span class=\"quiet\">apart, and no violation:</span>");
            list(body, apart)?;
        }
        writeln!(body, "</td><td class=\"number\">{checked}</td><td>{holds}</td></tr>")?;
    }
    body.push_str("</table>\n");
    if !said.unquiet.is_empty() {
        body.push_str("<p>When it looked, something still moved:</p>\n");
        list(body, &said.unquiet)?;
    }
    Ok(())
}

fn list(body: &mut String, findings: &[Finding]) -> Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    body.push_str("<ul>");
    for Finding { subject, what } in findings.iter().take(SHOWN) {
        write!(body, "<li>{}: {}</li>", text(subject), text(what))?;
    }
    if findings.len() > SHOWN {
        write!(body, "<li>and {} more</li>", findings.len() - SHOWN)?;
    }
    body.push_str("</ul>");
    Ok(())
}
