//! A measurement as a page, beside the pages of drills and like them: one file, no script, nothing to fetch.

use std::fmt::Write;

use anyhow::Result;

use super::{
    reading::{BROKEN, CARRIED, COLLAPSED, KNEE},
    record::{Curve, Record},
    step::{Latency, Step},
    thresholds::{ADMITTED, SAFE, Thresholds},
};
use crate::{
    probe::Figure,
    report::{
        chart::{self, Axis, Drawing, Form, Frame, Layer, Scale, Shade},
        html::{self, text},
        oracle,
        page::word,
        palette::Role,
    },
};

/// `command` repeats it; `draft` is the file name of the rules draft, where there is one.
pub fn page(record: &Record, command: &str, draft: Option<&str>) -> Result<String> {
    let mut body = String::new();
    body.push_str("<p class=\"quiet\">capacity</p>\n<h1>How many orders a second the system carries</h1>\n");
    body.push_str(ABOUT);
    verdict(&mut body, record)?;
    if let Some(found) = &record.thresholds {
        thresholds(&mut body, found, draft)?;
    }
    writeln!(body, "<h2>Curves</h2>\n<p>{}</p>", definitions())?;
    for (title, about, of) in PICTURES {
        picture(&mut body, record, title, about, of)?;
    }
    tables(&mut body, record)?;
    body.push_str("<h2>Oracle</h2>\n");
    oracle::section(&mut body, record.oracle.as_ref())?;
    again(&mut body, record, command)?;
    Ok(html::page(&format!("capacity: {}", record.verdict), &body))
}

const ABOUT: &str = "<p>The load goes up in steps, an open loop of orders, until the system breaks: with all instances of \
                     order, and with one of them killed. Thresholds follow from where it turned.</p>\n";

fn definitions() -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    format!(
        "A step is carried if {} of what came was sold, with a p99 of at most {KNEE} times the unloaded one. Inflection: \
         the last step that is carried before two in a row are not. Breakage: the first from there on in which less than \
         {} was sold, or less than {} of the most that was sold before, and in the next one too. Shaded: what lies \
         between the two.",
        percent(CARRIED),
        percent(BROKEN),
        percent(COLLAPSED)
    )
}

fn verdict(body: &mut String, record: &Record) -> Result<()> {
    body.push_str("<h2>Verdict</h2>\n<div class=\"card\">\n");
    writeln!(body, "<p>{} after {} s</p>", word(record.verdict), Figure(record.took_seconds.round()))?;
    if !record.reasons.is_empty() {
        body.push_str("<ul>\n");
        for reason in &record.reasons {
            writeln!(body, "<li>{}</li>", text(reason))?;
        }
        body.push_str("</ul>\n");
    }
    body.push_str("</div>\n");
    Ok(())
}

fn thresholds(body: &mut String, found: &Thresholds, draft: Option<&str>) -> Result<()> {
    let Thresholds { instances, inflection_each, safe_each, threshold, threshold_each, .. } = found;
    let [third, half] = found.by_breakage;
    body.push_str(
        "<h2>Thresholds</h2>\n<table>\n<tr><th></th><th class=\"number\">orders a second</th><th>how</th></tr>\n",
    );
    let mut row = |what: &str, value: String, how: String| {
        writeln!(body, "<tr><td>{what}</td><td class=\"number\">{value}</td><td>{how}</td></tr>")
    };
    row("inflection", format!("{inflection_each:.1}"), "one instance: the lesser of both curves".to_owned())?;
    row("safe", format!("{safe_each:.1}"), format!("one instance: inflection × {SAFE}"))?;
    row(
        "threshold",
        format!("{threshold:.1}"),
        format!("all {instances}: safe × {instances} × {ADMITTED}; {threshold_each:.1} for each"),
    )?;
    row("beside it", format!("{third:.1} – {half:.1}"), format!("all {instances}: breakage ÷ 3 and ÷ 2"))?;
    let enough = if found.can_miss_one() { "which is more" } else { "which is less" };
    let (admits, carries) = (found.one_missing_admits, found.one_missing_carries);
    row(
        "one missing",
        format!("{admits:.1}"),
        format!("what the others let in; they carry {carries:.1}, {enough} than the whole threshold"),
    )?;
    body.push_str("</table>\n");
    if let Some(draft) = draft {
        writeln!(body, "<p>As rules: <a href=\"{0}\">{0}</a></p>", text(draft))?;
    }
    Ok(())
}

type Of = fn(&[Step]) -> Picture;

const PICTURES: [(&str, &str, Of); 3] = [
    ("Sold", "orders a second that were sold, over those that came; dashed: all of them", sold),
    (
        "Latency of what was sold",
        "milliseconds from when a request was due; each line on the way up is ten times the one below",
        latency,
    ),
    ("What became of the rest", "shares of what came that were refused, failed, or got no answer", rest),
];

struct Picture {
    scale: Scale,
    keys: Vec<(Role, &'static str)>,
    layers: Vec<Layer>,
}

fn layer(role: Role, form: Form, steps: &[Step], of: impl Fn(&Step) -> Option<f64>) -> Layer {
    let points = steps.iter().filter_map(|step| Some((step.offered, of(step)?))).collect();
    Layer { role, form, points }
}

fn sold(steps: &[Step]) -> Picture {
    let keys = vec![(Role::Green, "sold"), (Role::Ink, "came")];
    let layers = vec![
        layer(Role::Ink, Form::Dashed, steps, |step| Some(step.offered)),
        layer(Role::Green, Form::Line, steps, |step| Some(step.goodput)),
    ];
    Picture { scale: Scale::Linear, keys, layers }
}

fn latency(steps: &[Step]) -> Picture {
    type Percentile = fn(&Latency) -> f64;
    let of: [(Role, &'static str, Percentile); 3] = [
        (Role::Blue, "p50", |latency| latency.p50),
        (Role::Orange, "p95", |latency| latency.p95),
        (Role::Purple, "p99", |latency| latency.p99),
    ];
    let layers =
        of.map(|(role, _, of)| layer(role, Form::Line, steps, move |step| step.latency.as_ref().map(of))).into();
    Picture { scale: Scale::Decades, keys: of.map(|(role, name, _)| (role, name)).into(), layers }
}

fn rest(steps: &[Step]) -> Picture {
    type Is = fn(&str) -> bool;
    let of: [(Role, &'static str, Is); 4] = [
        (Role::Amber, "refused (429, 503)", |outcome| ["429", "503"].contains(&outcome)),
        (Role::Red, "other 5xx", |outcome| outcome.starts_with('5') && outcome != "503"),
        (Role::Teal, "202, payment pending", |outcome| outcome == "202"),
        (Role::Grey, "no answer", |outcome| outcome.parse::<u16>().is_err()),
    ];
    let share = |step: &Step, is: Is| step.outcomes.keys().filter(|name| is(name)).map(|name| step.share(name)).sum();
    let layers = of.map(|(role, _, is)| layer(role, Form::Line, steps, |step| Some(share(step, is)))).into();
    Picture { scale: Scale::Share, keys: of.map(|(role, name, _)| (role, name)).into(), layers }
}

fn picture(body: &mut String, record: &Record, title: &str, about: &str, of: Of) -> Result<()> {
    let pictures: Vec<Picture> = record.curves.iter().map(|curve| of(&curve.steps)).collect();
    writeln!(body, "<section class=\"panel\">\n<h3>{title}</h3>\n<p class=\"quiet\">{about}</p>\n<ul class=\"keys\">")?;
    for (role, name) in pictures.iter().take(1).flat_map(|picture| &picture.keys) {
        write!(body, "<li><i class=\"{}\"></i>{name}</li>", role.name())?;
    }
    body.push_str("<li><i class=\"fault\"></i>inflection to breakage</li></ul>\n<div class=\"sides\">\n");
    // Both on the same scales, so that what looks higher is higher.
    let points = || pictures.iter().flat_map(|picture| &picture.layers).flat_map(|layer| &layer.points);
    let (length, highest) = points().fold((1.0, 0.0), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)));
    for (curve, Picture { scale, layers, .. }) in record.curves.iter().zip(pictures) {
        let name = curve.name(record.instances());
        let top = if scale == Scale::Share { 1.0 } else { (highest * 1.08).max(1.0) };
        let label = format!("{title}, {name}: {about}");
        let frame = Frame { label, length, axis: Axis::Rate, top, scale, shades: shades(curve, length) };
        let svg = chart::draw(&frame, &Drawing { layers, bands: Vec::new() })?;
        writeln!(body, "<figure><figcaption>{name}</figcaption>\n{svg}</figure>")?;
    }
    body.push_str("</div>\n</section>\n");
    Ok(())
}

fn shades(curve: &Curve, length: f64) -> Vec<Shade> {
    let Some(reading) = &curve.reading else { return Vec::new() };
    let from = curve.steps.get(reading.inflection_at).map_or(reading.inflection, |step| step.offered);
    vec![Shade { from, to: reading.breakage.min(length) }]
}

fn tables(body: &mut String, record: &Record) -> Result<()> {
    body.push_str("<h2>Steps</h2>\n<div class=\"sides\">\n");
    for curve in &record.curves {
        writeln!(body, "<div class=\"wide\">\n<h3>{}</h3>\n<table>\n<tr>", curve.name(record.instances()))?;
        for head in ["came/s", "sold/s", "%", "p50 ms", "p95 ms", "p99 ms", "lag ms"] {
            write!(body, "<th class=\"number\">{head}</th>")?;
        }
        body.push_str("<th></th></tr>\n");
        for (at, step) in curve.steps.iter().enumerate() {
            body.push_str("<tr>");
            let mut cell = |value: String| write!(body, "<td class=\"number\">{value}</td>");
            cell(format!("{:.1}", step.offered))?;
            cell(format!("{:.1}", step.goodput))?;
            cell(format!("{:.0}", step.success() * 100.0))?;
            for of in [|l: &Latency| l.p50, |l: &Latency| l.p95, |l: &Latency| l.p99] {
                cell(step.latency.as_ref().map_or_else(|| "–".to_owned(), |latency| format!("{:.0}", of(latency))))?;
            }
            cell(format!("{:.1}", step.generator.lag_p99_ms))?;
            writeln!(body, "<td>{}</td></tr>", curve.remark(at))?;
        }
        body.push_str("</table></div>\n");
    }
    body.push_str(
        "</div>\n<p class=\"quiet\">Lag: how late the generator itself sent one request in a hundred, or more.</p>\n",
    );
    Ok(())
}

fn again(body: &mut String, record: &Record, command: &str) -> Result<()> {
    let begun = record.started_at.format("%Y-%m-%d %H:%M:%S UTC");
    writeln!(body, "<h2>Again</h2>\n<pre>{}</pre>", text(command))?;
    let (seed, seconds) = (record.seed, record.step_seconds);
    writeln!(body, "<p>Seed {seed}, {seconds} s a step, begun at {begun}.</p>")?;
    for (what, table) in [("Rules that differ from the defaults", &record.rules), ("The provider", &record.provider)] {
        if !table.is_empty() {
            let said = toml::to_string(table)?;
            writeln!(body, "<details><summary>{what}</summary><pre>{}</pre></details>", text(&said))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capacity::{
            record::Outcome,
            sample::{self, carries, late},
        },
        scenario::StackSpec,
    };

    const COMMAND: &str = "./dev capacity --steps 1,2";

    #[test]
    fn a_page_tells_the_thresholds_how_they_came_about_and_how_to_measure_again() {
        let page = page(&sample::record(), COMMAND, Some("capacity.draft.toml")).unwrap();
        for said in [
            "<span class=\"word green\">pass</span> after 71 s",
            "<td>threshold</td><td class=\"number\">22.4</td><td>all 2: safe × 2 × 0.8; 11.2 for each</td>",
            "which is less than the whole threshold",
            "<a href=\"capacity.draft.toml\">",
            "<pre>./dev capacity --steps 1,2</pre>",
            "<td>inflection</td></tr>",
            "<td>breakage</td></tr>",
            "95 % of what came",
        ] {
            assert!(page.contains(said), "{said} is missing");
        }
    }

    #[test]
    fn every_picture_has_both_curves_side_by_side_with_what_lies_between_the_two_points_shaded() {
        let page = page(&sample::record(), COMMAND, None).unwrap();
        let body = page.split_once("<body>").unwrap().1;
        assert_eq!(body.matches("<tr>").count(), body.matches("</tr>").count());
        assert_eq!(body.matches("<svg ").count(), 6);
        assert_eq!(body.matches("fill=\"#E25022\"").count(), 6);
        assert_eq!(body.matches("<figcaption>one of 2 instances missing").count(), 3);
    }

    #[test]
    fn a_page_of_a_measurement_that_says_nothing_says_why_and_has_no_thresholds() {
        let doubtful = late(carries(9.0, [4.0]).remove(0));
        let outcome = Outcome { all: vec![doubtful], ..Outcome::default() };
        let record = Record::of(&StackSpec::default(), 2, outcome, sample::METHOD);
        let page = page(&record, "<script>", None).unwrap();
        assert!(page.contains("word amber\">inconclusive") && page.contains("generator was the bottleneck"));
        assert!(!page.contains("<h2>Thresholds") && !page.contains("<script>"));
    }

    #[test]
    fn a_page_fetches_nothing_and_has_its_colours_for_the_light_and_for_the_dark() {
        let page = page(&sample::record(), COMMAND, Some("d.toml")).unwrap();
        assert!(page.contains("@media (prefers-color-scheme:dark)"));
        for asset in ["src=", "url(", "@import", "<link", "<script", "http://", "https://"] {
            assert!(!page.contains(asset), "{asset}");
        }
    }
}
