//! The pages keep up with the code: every link leads somewhere, and every snippet is quoted from a file that its page
//! links, where it is compiled and tested.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// `README.md` and everything in `docs`.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![checkout().join("README.md")];
    let mut open = vec![checkout().join("docs")];
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => open.push(path),
                Some("md") => pages.push(path),
                _ => {}
            }
        }
    }
    pages
}

/// The lines of a page that are text, and its blocks of code with their language.
#[derive(Debug, Default, PartialEq)]
struct Page {
    text: Vec<String>,
    blocks: Vec<(String, Vec<String>)>,
}

fn read(page: &str) -> Page {
    let mut read = Page::default();
    let mut block: Option<(String, Vec<String>)> = None;
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (Some(_), Some(_)) => read.blocks.extend(block.take()),
            (Some((_, lines)), None) => lines.push(line.to_owned()),
            (None, Some(language)) => block = Some((language.to_owned(), Vec::new())),
            (None, None) => read.text.push(line.to_owned()),
        }
    }
    read
}

/// What stands in the round brackets of `[text](target)`. Code between backticks has no links.
fn links(text: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for line in text {
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push(rest[..end].to_owned());
            }
        }
    }
    found
}

/// The anchors of a page, as they are made from its headings.
fn anchors(text: &[String]) -> BTreeSet<String> {
    let headings = text.iter().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept =
            heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
        kept.replace(' ', "-")
    };
    headings.map(anchor).collect()
}

fn name(page: &Path) -> String {
    page.strip_prefix(checkout()).unwrap().display().to_string()
}

#[test]
fn every_relative_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let (mut followed, mut broken) = (0, Vec::new());
    for page in pages() {
        let own = read(&fs::read_to_string(&page).unwrap());
        for link in links(&own.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (path, anchor) = link.split_once('#').map_or((link.as_str(), None), |(path, a)| (path, Some(a)));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            if !target.exists() {
                broken.push(format!("{}: {link} leads nowhere", name(&page)));
            } else if let Some(anchor) = anchor {
                let there = read(&fs::read_to_string(&target).unwrap());
                if !anchors(&there.text).contains(anchor) {
                    broken.push(format!("{}: {link} has no such heading", name(&page)));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(followed > 50, "only {followed} links were found: does this test still read the pages?");
}

/// Without indentation, so that a part of a function may be quoted from its margin.
fn bare(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_rust_snippet_is_quoted_from_a_file_that_its_page_links() {
    let (mut quoted, mut invented) = (0, Vec::new());
    for page in pages() {
        let own = read(&fs::read_to_string(&page).unwrap());
        let folder = page.parent().unwrap();
        let files = links(&own.text).into_iter().map(|link| folder.join(link)).filter(|path| path.is_file());
        let sources: Vec<Vec<String>> = files
            .filter_map(|path| fs::read_to_string(path).ok())
            .map(|source| source.lines().map(str::to_owned).collect())
            .collect();
        for (_, block) in own.blocks.iter().filter(|(language, _)| language == "rust") {
            let wanted = bare(block);
            let is_there = sources.iter().any(|source| bare(source).windows(wanted.len()).any(|part| part == wanted));
            quoted += 1;
            if !is_there {
                invented.push(format!("{}:\n{}", name(&page), block.join("\n")));
            }
        }
    }
    assert!(invented.is_empty(), "in no linked file:\n{}", invented.join("\n\n"));
    assert!(quoted > 20, "only {quoted} snippets were found: does this test still read the pages?");
}

#[test]
fn every_pattern_has_the_same_sections_and_stands_in_the_index() {
    let folder = checkout().join("docs/patterns");
    let index = read(&fs::read_to_string(folder.join("README.md")).unwrap());
    let listed: BTreeSet<String> = links(&index.text).into_iter().filter(|link| !link.contains('/')).collect();
    for page in pages().into_iter().filter(|page| page.parent() == Some(&folder) && !page.ends_with("README.md")) {
        let text = fs::read_to_string(&page).unwrap();
        let file = page.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(listed.contains(&file), "{file} is not in the index");
        assert!(text.lines().count() <= 120, "{file} is longer than a page");
        let sections = ["**Problem.**", "**Rule.**", "## The code", "## Lift it", "## Tune it", "## Not for"];
        let at = sections.map(|section| text.find(section).unwrap_or_else(|| panic!("{file} has no {section}")));
        assert!(at.is_sorted() && text.contains("## What proves it"), "{file} has another shape");
    }
}

/// The keys of a rules file that a table of rules may name stand in the schema; a page that names others misleads.
#[test]
fn every_rule_that_a_page_names_is_one_that_there_is() {
    let schema = checkout().join("shared/rules/src/schema");
    let mut words = BTreeSet::new();
    let mut take = |file: &Path| {
        let text = fs::read_to_string(file).unwrap();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        words.extend(text.split(|c| !is_word(c)).map(str::to_owned));
    };
    for folder in [schema, checkout().join("shared/resilience/src")] {
        let mut open = vec![folder];
        while let Some(path) = open.pop() {
            match path.is_dir() {
                true => open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
                false => take(&path),
            }
        }
    }
    let mut unknown = Vec::new();
    for page in pages().into_iter().filter(|page| page.to_str().unwrap().contains("docs/patterns")) {
        let own = read(&fs::read_to_string(&page).unwrap());
        let tables = own.text.iter().skip_while(|line| *line != "## Tune it").filter(|line| line.starts_with("| `"));
        for line in tables {
            // The first column, what stands between backticks.
            let first = line.split('|').nth(1).unwrap();
            for key in first.split('`').skip(1).step_by(2) {
                let named =
                    key.split(['.', '*', ' ', '…', '"', '<', '>', '/', '{', '}']).filter(|word| !word.is_empty());
                let is_placeholder = |word: &str| ["name", "feature", "uuid", "route", "v1", "orders"].contains(&word);
                for word in named.filter(|word| !is_placeholder(word) && !words.contains(*word)) {
                    unknown.push(format!("{}: {key} ({word})", name(&page)));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn every_test_that_stands_for_a_fault_is_in_the_file_that_is_linked() {
    let page = checkout().join("docs/faults.md");
    let (own, mut named, mut missing) = (read(&fs::read_to_string(&page).unwrap()), 0, Vec::new());
    for line in own.text.iter().filter(|line| line.starts_with("| ") && line.contains("](")) {
        let last = line.trim_end_matches('|').rsplit('|').next().unwrap();
        let file = links(&[last.to_owned()]).remove(0);
        let source = fs::read_to_string(page.parent().unwrap().join(&file)).unwrap();
        let (_, tests) = last.split_once("): ").unwrap();
        for test in tests.split('`').skip(1).step_by(2) {
            named += 1;
            if !source.contains(&format!("fn {test}(")) {
                missing.push(format!("{test} in {file}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(named > 30, "only {named} tests were found: does this test still read the page?");
}

/// The names and help texts of all metrics, as the code describes them.
fn described() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for folder in ["shared", "services"] {
        for package in fs::read_dir(checkout().join(folder)).unwrap() {
            let source = package.unwrap().path().join("src/meters.rs");
            let Ok(source) = fs::read_to_string(source) else { continue };
            for call in source.split("describe_").skip(1).filter(|call| call.split('(').next().unwrap().ends_with('!'))
            {
                let call = &call[..call.find(");").unwrap()];
                // A name, and a text that may go on in the next line.
                let mut literals = call.split('"').skip(1).step_by(2);
                let (name, text) = (literals.next().unwrap(), literals.next().unwrap());
                let lines: Vec<_> =
                    text.split("\\\n").enumerate().map(|(n, l)| if n > 0 { l.trim_start() } else { l }).collect();
                found.insert((name.to_owned(), lines.concat()));
            }
        }
    }
    found
}

#[test]
fn the_table_of_metrics_is_what_the_code_describes() {
    let page = read(&fs::read_to_string(checkout().join("docs/observability.md")).unwrap());
    let rows = page.text.iter().filter(|line| line.starts_with("| `")).map(|line| line.split('|').collect::<Vec<_>>());
    let rows = rows.filter(|cells| ["counter", "gauge", "histogram"].contains(&cells[2].trim()));
    let told: BTreeSet<_> =
        rows.map(|cells| (cells[1].trim().trim_matches('`').to_owned(), cells[4].trim().to_owned())).collect();
    let described = described();
    assert!(described.len() > 80, "only {} were found: does this test still read the sources?", described.len());
    assert_eq!(
        told.difference(&described).collect::<Vec<_>>(),
        Vec::<&(String, String)>::new(),
        "nobody describes these"
    );
    assert_eq!(
        described.difference(&told).collect::<Vec<_>>(),
        Vec::<&(String, String)>::new(),
        "the table lacks these"
    );
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let page = read("# A `b` c-d!\n[x](y.md#z) and [u](v)\n```rust\nlet [a](b);\n```\nend");
    assert_eq!(page.text, lines("# A `b` c-d!\n[x](y.md#z) and [u](v)\nend"));
    assert_eq!(page.blocks, [("rust".to_owned(), lines("let [a](b);"))]);
    assert_eq!(links(&page.text), ["y.md#z", "v"]);
    assert_eq!(anchors(&page.text), BTreeSet::from(["a-b-c-d".to_owned()]));
}
