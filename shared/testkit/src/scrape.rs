//! What `/metrics` says, and whether it says it as a scrape should.

use std::collections::BTreeSet;

/// One reading of a service's metrics.
#[derive(Debug, Clone)]
pub struct Scrape(String);

impl Scrape {
    #[must_use]
    pub fn of(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The value of the first sample of this name that has `label`, written as `name="value"`, among its labels.
    #[must_use]
    pub fn value(&self, name: &str, label: &str) -> Option<f64> {
        let sample = self.samples(name).find(|labels_and_value| labels_and_value.contains(label))?;
        sample.rsplit_once(' ')?.1.parse().ok()
    }

    /// # Panics
    /// Where no sample of this name has all of these labels, whatever their values; a histogram is named by its buckets.
    pub fn assert_has(&self, name: &str, labels: &[&str]) {
        let has_all = |sample: &str| labels.iter().all(|label| sample.contains(&format!("{label}=\"")));
        assert!(self.samples(name).any(has_all), "{name} with {labels:?} is missing in\n{}", self.0);
    }

    /// # Panics
    /// Where a metric has no help text or type, or a label's value is, or holds, an id.
    pub fn assert_sound(&self) {
        let commented = |kind: &str| -> BTreeSet<&str> {
            let lines = self.0.lines().filter_map(|line| line.strip_prefix(kind));
            lines.filter_map(|line| line.split_once(' ')).filter(|(_, text)| !text.is_empty()).map(|(n, _)| n).collect()
        };
        let (helped, typed) = (commented("# HELP "), commented("# TYPE "));
        let mute: Vec<_> = typed.difference(&helped).collect();
        assert!(mute.is_empty(), "metrics without a help text: {mute:?}");
        for sample in self.0.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let name = sample.split(['{', ' ']).next().unwrap_or_default();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            let is_typed = typed.contains(name) || family.is_some_and(|family| typed.contains(family));
            assert!(is_typed, "a sample without a type: {sample}");
            let labels = sample.rsplit_once(' ').map_or(sample, |(labels, _)| labels);
            assert!(!holds_an_id(labels), "an id in a label: {sample}");
        }
    }

    fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.0.lines().filter_map(move |line| line.strip_prefix(name));
        lines.filter(|rest| rest.starts_with(['{', ' ']))
    }
}

/// As many hex digits in a row as a UUID has, with or without its dashes.
fn holds_an_id(text: &str) -> bool {
    let runs = text.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    runs.map(|run| run.bytes().filter(|byte| *byte != b'-').count()).any(|digits| digits >= 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total{route=\"/v1/{id}\"} 3\n\n\
                         # HELP b_seconds Seconds.\n# TYPE b_seconds histogram\nb_seconds_bucket{le=\"1\"} 2\n";

    #[test]
    fn samples_are_found_by_name_and_label() {
        let scrape = Scrape::of(SOUND);
        scrape.assert_sound();
        scrape.assert_has("a_total", &["route"]);
        scrape.assert_has("b_seconds_bucket", &["le"]);
        assert_eq!(scrape.value("a_total", "route=\"/v1/{id}\""), Some(3.0));
        assert_eq!((scrape.value("a_total", "none"), scrape.value("a", "")), (None, None));
    }

    #[test]
    #[should_panic(expected = "without a help text")]
    fn a_metric_that_nobody_explains_is_found() {
        Scrape::of("# TYPE a_total counter\na_total 3\n").assert_sound();
    }

    #[test]
    #[should_panic(expected = "an id in a label")]
    fn an_id_in_a_label_is_found() {
        let order = "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";
        Scrape::of(SOUND.replace("/v1/{id}", &format!("/v1/{order}"))).assert_sound();
    }
}
