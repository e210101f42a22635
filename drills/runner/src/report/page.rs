//! The page of one drill: with guards alone, or without them (or without one) and with them side by side.

use std::fmt::Write;

use anyhow::Result;

use super::{
    chart,
    html::{self, text},
    panels::{Panel, panels},
    tables,
};
use crate::{
    probe::Figure,
    scenario::FaultSpec,
    verdict::{Record, Verdict},
};

/// What a page needs to know that is not in the record.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// How to run it again.
    pub command: String,
    /// Where the page of the pattern is, as seen from this one.
    pub pattern: Option<String>,
}

pub fn page(record: &Record, around: &Around) -> Result<String> {
    let runs: Vec<&Record> = record.beside().into_iter().chain([record]).collect();
    let mut body = String::new();
    head(&mut body, record, around)?;
    verdicts(&mut body, &runs)?;
    tables::checks(&mut body, &runs)?;
    faults(&mut body, &runs)?;
    body.push_str(
        "<h2>Timelines</h2>\n<p>Seconds from the start of the load. Shaded: the time of the faults, or else of the spike.</p>\n",
    );
    for panel in panels(&runs) {
        picture(&mut body, &panel, &runs)?;
    }
    tables::answers(&mut body, &runs)?;
    oracles(&mut body, &runs)?;
    again(&mut body, record, around)?;
    Ok(html::page(&format!("{}: {}", record.id, record.verdict), &body))
}

fn head(body: &mut String, record: &Record, around: &Around) -> Result<()> {
    let Record { id, title, story, source, pattern, .. } = record;
    writeln!(body, "<p class=\"quiet\">drill <code>{}</code></p>\n<h1>{}</h1>", text(id), text(title))?;
    writeln!(body, "<p>{}</p>\n<p class=\"quiet\">Source: {}</p>", text(story.trim()), text(source))?;
    match (pattern, &around.pattern) {
        (Some(pattern), Some(link)) => {
            writeln!(body, "<p>The pattern: <a href=\"{}\">{}</a></p>", text(link), text(pattern))?;
        }
        (Some(pattern), None) => writeln!(body, "<p>The pattern: {}</p>", text(pattern))?,
        (None, _) => {}
    }
    Ok(())
}

fn verdicts(body: &mut String, runs: &[&Record]) -> Result<()> {
    body.push_str("<h2>Verdict</h2>\n<div class=\"sides\">\n");
    for run in runs {
        body.push_str("<div class=\"card\">\n");
        if runs.len() > 1 {
            writeln!(body, "<h3>{}</h3>", run.guards.as_str())?;
        }
        if let Some(without) = &run.without {
            writeln!(body, "<p class=\"quiet\">Without {}.</p>", text(without))?;
        }
        writeln!(body, "<p>{} after {} s</p>", word(run.verdict), Figure(run.took_seconds.round()))?;
        if !run.reasons.is_empty() {
            body.push_str("<ul>\n");
            for reason in &run.reasons {
                writeln!(body, "<li>{}</li>", text(reason))?;
            }
            body.push_str("</ul>\n");
        }
        match run.recovered_after_seconds {
            Some(seconds) => writeln!(body, "<p>Recovered after {} s.</p>", Figure(seconds))?,
            None => body.push_str("<p>Not recovered by the end of the load.</p>\n"),
        }
        let oracle = match &run.oracle {
            Some(oracle) if oracle.clean => "The oracle found nothing wrong.",
            Some(_) => "<span class=\"no\">The oracle found a violation</span>, see below.",
            None => "The oracle was not consulted.",
        };
        writeln!(body, "<p>{oracle}</p>\n</div>")?;
    }
    body.push_str("</div>\n");
    Ok(())
}

/// A word in the colour of its meaning, which it says itself as well.
#[must_use]
pub fn word(verdict: Verdict) -> String {
    let colour = match verdict {
        Verdict::Pass => "green",
        Verdict::Fail => "red",
        Verdict::Inconclusive => "amber",
        Verdict::Aborted => "grey",
    };
    format!("<span class=\"word {colour}\">{verdict}</span>")
}

fn faults(body: &mut String, runs: &[&Record]) -> Result<()> {
    let Some(run) = runs.last() else { return Ok(()) };
    body.push_str("<h2>What was broken</h2>\n");
    if run.faults.is_empty() {
        body.push_str("<p>Nothing: the load itself is what is unusual.</p>\n");
        return Ok(());
    }
    body.push_str("<ul>\n");
    for fault in &run.faults {
        let (from, to) = (Figure(fault.at.0.as_secs_f64()), Figure(fault.end().as_secs_f64()));
        write!(body, "<li>from {from} s to {to} s: {}", text(&describe(fault)))?;
        for run in runs {
            let met = fault.link.as_ref().and_then(|link| run.applied.get(link));
            if let Some(met) = met {
                let side = if runs.len() > 1 { format!("{}: ", run.guards.as_str()) } else { String::new() };
                write!(body, " <span class=\"quiet\">({side}met {met} times)</span>")?;
            }
        }
        body.push_str("</li>\n");
    }
    body.push_str("</ul>\n");
    Ok(())
}

/// `order->payment: latency (latency_ms 3000)`.
fn describe(fault: &FaultSpec) -> String {
    let whom = fault.link.as_ref().or(fault.process.as_ref()).map(|whom| format!("{whom}: ")).unwrap_or_default();
    let fields = serde_json::to_value(fault).unwrap_or_default();
    let said = ["at", "for", "link", "process", "kind"];
    let more = fields.as_object().into_iter().flatten().filter(|(name, _)| !said.contains(&name.as_str()));
    let more: Vec<String> = more.map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    format!("{whom}{}{more}", fault.kind).trim_start().to_owned()
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn picture(body: &mut String, panel: &Panel, runs: &[&Record]) -> Result<()> {
    let Panel { title, about, keys, .. } = panel;
    writeln!(body, "<section class=\"panel\">\n<h3>{}</h3>", text(title))?;
    if panel.is_empty() {
        body.push_str("<p class=\"quiet\">Nothing of it in this drill.</p>\n</section>\n");
        return Ok(());
    }
    writeln!(body, "<p class=\"quiet\">{}</p>\n<ul class=\"keys\">", text(about))?;
    for (role, name) in keys {
        write!(body, "<li><i class=\"{}\"></i>{}</li>", role.name(), text(name))?;
    }
    if !panel.frame.shades.is_empty() {
        body.push_str("<li><i class=\"fault\"></i>fault or spike</li>");
    }
    body.push_str("</ul>\n<div class=\"sides\">\n");
    for (run, drawing) in runs.iter().zip(&panel.drawings) {
        body.push_str("<figure>");
        if runs.len() > 1 {
            write!(body, "<figcaption>{}</figcaption>", run.guards.as_str())?;
        }
        writeln!(body, "\n{}</figure>", chart::draw(&panel.frame, drawing)?)?;
    }
    body.push_str("</div>\n</section>\n");
    Ok(())
}

fn oracles(body: &mut String, runs: &[&Record]) -> Result<()> {
    body.push_str("<h2>Oracle</h2>\n<div class=\"sides\">\n");
    for run in runs {
        body.push_str("<div>\n");
        if runs.len() > 1 {
            writeln!(body, "<h3>{}</h3>", run.guards.as_str())?;
        }
        super::oracle::section(body, run.oracle.as_ref())?;
        body.push_str("</div>\n");
    }
    body.push_str("</div>\n");
    Ok(())
}

fn again(body: &mut String, record: &Record, around: &Around) -> Result<()> {
    let begun = record.started_at.format("%Y-%m-%d %H:%M:%S UTC");
    writeln!(body, "<h2>Again</h2>\n<pre>{}</pre>", text(&around.command))?;
    writeln!(body, "<p>Seed {}, begun at {begun}.</p>", record.seed)?;
    if !record.rules.is_empty() {
        let rules = toml::to_string(&record.rules)?;
        writeln!(
            body,
            "<details><summary>Rules that differ from the defaults</summary><pre>{}</pre></details>",
            text(&rules)
        )?;
    }
    Ok(())
}
