//! The numbers: every check with its value and bound, and every kind of answer.

use std::fmt::Write;

use anyhow::Result;

use super::html::text;
use crate::{
    probe::{Checked, Figure},
    verdict::Record,
};

type Group = fn(&Record) -> &Vec<Checked>;

pub fn checks(body: &mut String, runs: &[&Record]) -> Result<()> {
    body.push_str("<h2>Checks</h2>\n<div class=\"wide\"><table>\n<tr><th></th><th>what</th>");
    for run in runs {
        let side = if runs.len() > 1 { format!("{}: ", run.guards.as_str()) } else { String::new() };
        write!(body, "<th class=\"number\">{side}value</th><th>bound</th><th>held</th>")?;
    }
    body.push_str("</tr>\n");
    let groups: [(&str, Group); 3] =
        [("steady before", |run| &run.steady_state), ("felt", |run| &run.proof), ("expected", |run| &run.expect)];
    for (group, of) in groups {
        // The guarded run is asked for everything that the other one is.
        let asked = runs.last().map(|run| of(run).as_slice()).unwrap_or_default();
        for (number, check) in asked.iter().enumerate() {
            let group = if number == 0 { group } else { "" };
            write!(body, "<tr><td>{group}</td><td>{}</td>", text(&check.what))?;
            for run in runs {
                match of(run).iter().find(|other| other.what == check.what) {
                    Some(check) => cell(body, check)?,
                    None => body.push_str("<td class=\"number quiet\">not asked</td><td></td><td></td>"),
                }
            }
            body.push_str("</tr>\n");
        }
    }
    body.push_str("</table></div>\n");
    Ok(())
}

fn cell(body: &mut String, check: &Checked) -> Result<()> {
    let value = check.value.map_or_else(|| "–".to_owned(), |value| Figure(value).to_string());
    let held = if check.holds { "<td>yes</td>" } else { "<td class=\"no\">NO</td>" };
    write!(body, "<td class=\"number\">{value}</td><td>{}</td>{held}", text(&check.bound))?;
    Ok(())
}

pub fn answers(body: &mut String, runs: &[&Record]) -> Result<()> {
    body.push_str("<h2>Answers</h2>\n<div class=\"sides\">\n");
    for run in runs {
        body.push_str("<div class=\"wide\">\n");
        if runs.len() > 1 {
            writeln!(body, "<h3>{}</h3>", run.guards.as_str())?;
        }
        let Some(load) = &run.load else {
            body.push_str("<p>There was no load.</p></div>\n");
            continue;
        };
        writeln!(
            body,
            "<p>{} requests were due, {} succeeded. The generator had at most {} in flight.</p>",
            load.arrivals, load.succeeded, load.generator.in_flight_peak
        )?;
        body.push_str("<table>\n<tr><th>request</th><th>outcome</th>");
        for head in ["count", "p50 ms", "p95 ms", "p99 ms", "longest ms"] {
            write!(body, "<th class=\"number\">{head}</th>")?;
        }
        body.push_str("</tr>\n");
        for row in &load.requests {
            write!(body, "<tr><td>{}</td><td>{}</td>", row.kind, row.outcome)?;
            let latency = &row.latency;
            write!(body, "<td class=\"number\">{}</td>", row.count)?;
            for ms in [latency.p50, latency.p95, latency.p99, latency.max] {
                write!(body, "<td class=\"number\">{ms:.1}</td>")?;
            }
            body.push_str("</tr>\n");
        }
        body.push_str("</table></div>\n");
    }
    body.push_str("</div>\n");
    Ok(())
}
