//! Looks at the metrics that a scenario's checks speak of and at those of which every report has a picture, and at no
//! others.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use contracts::Service;
use futures_util::future::join_all;
use reqwest::Client;

use crate::{
    log::{Look, REPLICA, Sample},
    probe,
    scenario::Scenario,
    stack::Stack,
    watched,
};

/// Between two looks.
pub const EVERY: Duration = Duration::from_millis(500);
/// A process that stands still must not hold up the faults that are due.
const PATIENCE: Duration = Duration::from_millis(300);

pub struct Scraper {
    client: Client,
    /// Service, replica, and where its metrics are.
    pages: Vec<(String, u16, String)>,
    wanted: BTreeSet<(String, String)>,
}

impl Scraper {
    #[must_use]
    pub fn new(client: Client, stack: &Stack, scenario: &Scenario) -> Self {
        let checks = [&scenario.steady_state, &scenario.proof, &scenario.expect, &scenario.abort_if];
        let wanted: BTreeSet<_> = checks.into_iter().flatten().flat_map(probe::metrics).chain(watched::all()).collect();
        let services: BTreeSet<&str> = wanted.iter().map(|(service, _)| service.as_str()).collect();
        let services = services.into_iter().filter_map(|service| service.parse::<Service>().ok());
        let pages = services.flat_map(|service| {
            let replicas = scenario.stack.replicas.get(service.as_str()).copied().unwrap_or(1);
            (0..replicas).map(move |k| (service.to_string(), k, format!("{}/metrics", stack.admin(service, k))))
        });
        Self { client, pages: pages.collect(), wanted }
    }

    /// At all at once. A replica that does not answer has no samples in this look.
    pub async fn look(&self, at: Duration) -> Look {
        let texts = join_all(self.pages.iter().map(|(.., url)| self.page(url))).await;
        let mut look = Look { at, samples: BTreeMap::new() };
        for ((service, replica, _), text) in self.pages.iter().zip(texts) {
            let Ok(text) = text else { continue };
            for line in text.lines() {
                let key = (service.clone(), line.split(['{', ' ']).next().unwrap_or_default().to_owned());
                if !self.wanted.contains(&key) {
                    continue;
                }
                let Some((_, mut sample)) = sample(line) else { continue };
                sample.labels.insert(REPLICA.to_owned(), replica.to_string());
                look.samples.entry(key).or_default().push(sample);
            }
        }
        look
    }

    async fn page(&self, url: &str) -> reqwest::Result<String> {
        self.client.get(url).timeout(PATIENCE).send().await?.error_for_status()?.text().await
    }
}

/// A line of the text format: `name{label="value",…} number`.
fn sample(line: &str) -> Option<(&str, Sample)> {
    if line.starts_with('#') {
        return None;
    }
    let (head, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = head.split_once('{') else {
        return Some((head, Sample { labels: BTreeMap::new(), value }));
    };
    let labels = labels.strip_suffix('}')?.split("\",").filter(|label| !label.is_empty());
    let labels = labels.filter_map(|label| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.trim_end_matches('"').to_owned()))
    });
    Some((name, Sample { labels: labels.collect(), value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_text_format_are_read() {
        let (name, read) = sample(r#"orders_total{status="rejected",reason="a,b"} 3"#).unwrap();
        assert_eq!((name, read.value), ("orders_total", 3.0));
        assert_eq!((read.labels["status"].as_str(), read.labels["reason"].as_str()), ("rejected", "a,b"));
        let (name, read) = sample("payment_pending 2.5").unwrap();
        assert_eq!((name, read.value, read.labels.len()), ("payment_pending", 2.5, 0));
        assert_eq!(sample("# TYPE a counter"), None);
        assert_eq!(sample(""), None);
    }
}
