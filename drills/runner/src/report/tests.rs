//! Whole pages, from a run that never was.

use std::{collections::BTreeMap, time::Duration};

use load::{Kind, Outcome as Ended};
use serde_json::json;

use super::*;
use crate::{
    guards::Guards,
    log::{Log, Look, Sample, Seen, Timeline},
    scenario::read,
    verdict::{Oracle, Outcome, Verdict, judge},
    watched,
};

const TEXT: &str = r#"
id = "payment-gone"
title = "Payment <gone> & back"
story = "What happens & why it <matters>."
source = "somebody's \"outage\""
pattern = "docs/patterns/breaker.md"
seed = 77
max_duration = "2m"
recovery_within = "5s"
load = { rate = 10, duration = "30s" }
steady_state = [{ probe = "success_ratio", min = 0.99 }]
faults = [
  { at = "10s", for = "6s", link = "order->payment", kind = "latency", latency_ms = 900 },
  { at = "12s", for = "8s", process = "payment", kind = "stop" },
]
proof = [{ probe = "metric", service = "order", metric = "stability_breaker_open_total", min = 0 }]
expect = [
  { probe = "success_ratio", min = 0.5 },
  { probe = "share", outcomes = ["timed_out"], max = 0.0 },
]
stack.rules.downstream.payment.breaker.open_ms = 3000
"#;

/// One order a tenth of a second; while things are broken each is answered 202, or not at all without guards.
fn record(guards: Guards) -> Record {
    let answers = (0..300).map(|n| {
        let due = Duration::from_millis(n * 100);
        let broken = (10..20).contains(&due.as_secs());
        let outcome = match (broken, guards) {
            (false, _) => Ended::Status(201),
            (true, Guards::On) => Ended::Status(202),
            (true, Guards::Off | Guards::TakenOut) => Ended::TimedOut,
        };
        let latency = Duration::from_millis(if broken { 900 } else { 9 });
        Seen { due, kind: Kind::PlaceOrder, outcome, latency, hot: false, tries: 1 }
    });
    let looks = (0..60).map(|n| {
        let at = Duration::from_millis(n * 500);
        let broken = (10..20).contains(&at.as_secs());
        let sample = |metric: &str, label: &str, of: &str, value: f64| {
            let labels = BTreeMap::from([(label.to_owned(), of.to_owned())]);
            (("order".to_owned(), metric.to_owned()), vec![Sample { labels, value }])
        };
        let rising = |rate: f64| if broken { n as f64 * rate } else { 0.0 };
        let samples = [
            sample(watched::BREAKER, "downstream", "payment", if broken { 1.0 } else { 0.0 }),
            sample(watched::BULKHEAD, "downstream", "payment", if broken { 30.0 } else { 2.0 }),
            sample(watched::BULKHEAD_CAP, "downstream", "payment", if guards == Guards::On { 40.0 } else { 1e5 }),
            sample(watched::DEGRADED, "feature", "coupon", rising(2.0)),
            sample(watched::REFUSED, "mechanism", "rate_limit.user", rising(3.0)),
            sample(watched::OUTBOX, "none", "", rising(1.0)),
        ];
        Look { at, samples: samples.into() }
    });
    let applied = BTreeMap::from([("order->payment".to_owned(), 41)]);
    let log = Log { answers: answers.collect(), looks: looks.collect(), applied, ..Log::default() };
    let seconds = Duration::from_secs;
    let timeline = Timeline { warm_up: seconds(3), broken: seconds(10), restored: seconds(20), end: seconds(30) };
    let report = json!({
        "unquiet": [{"subject": "order 1", "what": "is <moving>"}],
        "waited_ms": 1,
        "invariants": [
            {"number": 1, "title": "charged = paid", "checked": 30, "violated": 0, "offenders": [],
             "apart": [{"subject": "attempt 7", "what": "in review"}]},
            {"number": 2, "title": "one charge", "checked": 30, "violated": 1,
             "offenders": [{"subject": "order 9", "what": "charged & unpaid"}], "apart": []},
        ],
    });
    let oracle = (guards == Guards::On).then_some(Oracle { clean: true, report });
    let scenario = guards.asks(&read("a.toml", TEXT).unwrap()).unwrap();
    judge(&scenario, guards, &log, &timeline, Outcome { oracle, ..Outcome::default() })
}

fn compared() -> Record {
    Record { unguarded: Some(Box::new(record(Guards::Off))), ..record(Guards::On) }
}

fn around() -> Around {
    Around { command: "./dev drill payment-gone".to_owned(), pattern: Some("../docs/breaker.md".to_owned()) }
}

fn page_of(record: &Record) -> String {
    page::page(record, &around()).unwrap()
}

#[test]
fn a_page_tells_the_story_the_numbers_and_how_to_run_it_again() {
    let page = page_of(&record(Guards::On));
    for said in [
        "What happens &amp; why it &lt;matters&gt;.",
        "<a href=\"../docs/breaker.md\">docs/patterns/breaker.md</a>",
        "<span class=\"word green\">pass</span>",
        "Recovered after 0 s.",
        "<td>share of timed_out during</td><td class=\"number\">0</td><td>≤ 0</td><td>yes</td>",
        "<td>steady before</td>",
        "<td>felt</td>",
        "<td>met the fault on order-&gt;payment</td><td class=\"number\">41</td>",
        "from 10 s to 16 s: order-&gt;payment: latency (latency_ms 900)",
        "from 12 s to 20 s: payment: stop",
        "<pre>./dev drill payment-gone</pre>",
        "Seed 77",
        "open_ms = 3000",
        "charged &amp; unpaid",
        "in review",
        "is &lt;moving&gt;",
    ] {
        assert!(page.contains(said), "{said} is missing");
    }
}

#[test]
fn a_page_has_every_picture_and_says_so_where_there_is_nothing_to_see() {
    let page = page_of(&record(Guards::On));
    for title in [
        "Arrivals and outcomes",
        "Latency of orders",
        "Latency of all else",
        "In flight at order",
        "In flight at payment",
        "Breakers and ramps",
        "Served with less",
        "Refusals and retries",
        "Backlogs",
    ] {
        assert!(page.contains(&format!("<h3>{title}</h3>")), "{title}");
    }
    // Only orders were placed, and payment was not looked at.
    assert_eq!(page.matches("<svg ").count(), 7);
    assert_eq!(page.matches("Nothing of it in this drill.").count(), 2);
    assert!(page.contains("Caps: order → payment 40."), "the cap is told in words as well");
}

#[test]
fn nothing_that_a_scenario_says_becomes_a_mark_of_the_page() {
    let hostile =
        TEXT.replace("Payment <gone>", "<script>alert(1)</script>").replace("What happens", "</p><img src=x>");
    let record = Record { title: read("a.toml", &hostile).unwrap().title, story: hostile, ..record(Guards::On) };
    let page = page_of(&record);
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn the_time_of_faults_is_shaded_once_where_they_overlap_in_every_picture() {
    let run = record(Guards::On);
    let panels = panels::panels(&[&run]);
    for panel in &panels {
        let shades: Vec<(f64, f64)> = panel.frame.shades.iter().map(|shade| (shade.from, shade.to)).collect();
        assert_eq!(shades, [(10.0, 20.0)], "{}", panel.title);
    }
    let page = page_of(&run);
    // The style sheet, which names every colour once, is not meant.
    let page = page.split_once("<body>").unwrap().1;
    assert_eq!(page.matches("fill=\"#E25022\"").count(), page.matches("<svg ").count());
    assert_eq!(page.matches("</i>fault or spike</li>").count(), page.matches("<svg ").count());
}

#[test]
fn a_drill_in_which_nothing_is_broken_has_the_time_of_its_spike_shaded() {
    let run = Record { faults: Vec::new(), ..record(Guards::On) };
    let panels = panels::panels(&[&run]);
    assert!(panels.iter().all(|panel| panel.frame.shades == [chart::Shade { from: 10.0, to: 20.0 }]));
    assert!(page_of(&run).contains("Nothing: the load itself is what is unusual."));
}

#[test]
fn a_page_has_its_colours_for_the_light_and_for_the_dark_and_fetches_nothing() {
    let page = page_of(&compared());
    assert!(page.contains("@media (prefers-color-scheme:dark)") && page.contains("color-scheme: light dark"));
    for asset in ["src=", "url(", "@import", "<link", "<script", "http://", "https://"] {
        assert!(!page.contains(asset), "{asset}");
    }
}

#[test]
fn a_comparison_has_both_runs_side_by_side_off_on_the_left_on_the_same_scale() {
    let both = compared();
    let page = page_of(&both);
    assert_eq!(page.matches("<svg ").count(), 14);
    let (off, on) = (page.find("<h3>guards off</h3>").unwrap(), page.find("<h3>guards on</h3>").unwrap());
    assert!(off < on);
    assert!(
        page.contains("<span class=\"word red\">fail</span>")
            && page.contains("<span class=\"word green\">pass</span>")
    );
    assert!(page.contains("expected: share of timed_out during ≤ 0, was 1"));
    assert!(page.contains("not asked"), "a breaker that is held closed proves nothing");
    assert!(page.contains("Caps: left: order → payment 100000; right: order → payment 40."));
    let runs: Vec<&Record> = both.beside().into_iter().chain([&both]).collect();
    for panel in panels::panels(&runs) {
        assert_eq!(panel.drawings.len(), 2, "{}", panel.title);
    }
}

#[test]
fn a_control_stands_beside_the_drill_and_says_what_was_taken_out() {
    let without = Some("the breaker <of> payment".to_owned());
    let control = Record { guards: Guards::TakenOut, without, ..record(Guards::Off) };
    let page = page_of(&record(Guards::On).against(control));
    let (control, drill) = (page.find("<h3>guard taken out</h3>").unwrap(), page.find("<h3>guards on</h3>").unwrap());
    assert!(control < drill);
    assert!(page.contains("Without the breaker &lt;of&gt; payment."));
}

#[test]
fn a_cap_that_is_far_above_is_told_and_not_drawn() {
    let dashes = |guards| {
        let run = record(guards);
        let panels = panels::panels(&[&run]);
        let order = panels.iter().find(|panel| panel.title == "In flight at order").unwrap();
        (order.drawings[0].layers.iter().filter(|layer| layer.form == chart::Form::Dashed).count(), order.frame.top)
    };
    assert_eq!(dashes(Guards::On), (1, 40.0 * 1.08));
    assert_eq!(dashes(Guards::Off), (0, 30.0 * 1.08));
}

#[test]
fn the_summary_links_every_page_and_tells_every_verdict() {
    let both = compared();
    let not_run = Row::without_record("other", "An <other> one", Verdict::Inconclusive, "port 1 is taken");
    let page = index::index(&[Row::of(&both, Some("payment-gone.html".to_owned())), not_run]);
    assert!(page.contains("1 of 2 passed") && page.contains("<a href=\"payment-gone.html\">payment-gone</a>"));
    assert!(page.contains("guards off") && page.contains("word red\">fail"));
    assert!(page.contains("An &lt;other&gt; one") && page.contains("port 1 is taken"));
    assert!(!page.contains("href=\"other"));
}

#[test]
fn the_way_to_a_pattern_leads_from_wherever_the_pages_are() {
    let way = |from: &str, to: &str| link(Path::new(from), Path::new(to));
    assert_eq!(way("/c/target/dev/drills", "/c/docs/patterns/retry.md"), "../../../docs/patterns/retry.md");
    assert_eq!(way("/c", "/c/docs/a b.md"), "docs/a%20b.md");
    assert_eq!(way("/elsewhere", "/c/docs/x.md"), "../c/docs/x.md");
}

#[test]
fn pages_are_written_beside_each_other_and_a_pattern_without_a_page_is_no_link() {
    let folder = std::env::temp_dir().join(format!("drill-report-{}", std::process::id()));
    fs::create_dir_all(folder.join("docs/patterns")).unwrap();
    let written = |name: &str| {
        let file = write(&folder, &folder, "./dev drill x", &record(Guards::On)).unwrap();
        assert_eq!(file, folder.join(name));
        fs::read_to_string(file).unwrap()
    };
    assert!(!written("payment-gone.html").contains("<a href"));
    fs::write(folder.join("docs/patterns/breaker.md"), "# Breaker").unwrap();
    assert!(written("payment-gone.html").contains("<a href=\"docs/patterns/breaker.md\">"));
    assert_eq!(write_index(&folder, &[]).unwrap(), folder.join("index.html"));
    fs::remove_dir_all(&folder).unwrap();
}
