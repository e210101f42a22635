//! What an instance says at `/metrics`, read as far as the console has a use for it: one scrape's samples, and what two
//! scrapes say together.
//!
//! A counter that is lower than before began anew with its process: all of it is new. A series that was not there before
//! began at zero.

use std::collections::HashMap;

/// The samples of one scrape whose names are wanted, by name; each with its labels as they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(HashMap<&'static str, Vec<(Box<str>, f64)>>);

/// The labels of one sample.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a>(&'a str);

impl Samples {
    /// Lines that are no samples, or not wanted, are passed over.
    #[must_use]
    pub fn read(text: &str, wanted: &[&'static str]) -> Self {
        let mut found: HashMap<&'static str, Vec<(Box<str>, f64)>> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let Some(name) = wanted.iter().find(|known| **known == name) else { continue };
            let Some((labels, rest)) = labels_of(&line[name.len()..]) else { continue };
            let Some(value) = rest.split_whitespace().next().and_then(|value| value.parse().ok()) else { continue };
            found.entry(*name).or_default().push((labels.into(), value));
        }
        Self(found)
    }

    /// Every sample of this name.
    pub fn of<'a>(&'a self, name: &str) -> impl Iterator<Item = (Labels<'a>, f64)> {
        self.0.get(name).into_iter().flatten().map(|(labels, value)| (Labels(labels), *value))
    }

    /// The sum of the samples that match; `None` where there is none.
    pub fn sum(&self, name: &str, matches: impl Fn(Labels<'_>) -> bool) -> Option<f64> {
        self.of(name).filter(|(labels, _)| matches(*labels)).map(|(_, value)| value).reduce(|all, one| all + one)
    }

    /// By how much each series of this counter has grown since `earlier`.
    pub fn growth<'a>(&'a self, earlier: &Self, name: &str) -> impl Iterator<Item = (Labels<'a>, f64)> {
        let before: HashMap<Box<str>, f64> = earlier.0.get(name).into_iter().flatten().cloned().collect();
        self.of(name).map(move |(labels, now)| {
            let then = before.get(labels.0).copied().unwrap_or_default();
            (labels, if now < then { now } else { now - then })
        })
    }

    /// Where the share `q` of what a histogram has seen since `earlier` lies below, as its buckets tell; `None` if it has
    /// seen nothing.
    pub fn quantile(&self, earlier: &Self, name: &str, q: f64, matches: impl Fn(Labels<'_>) -> bool) -> Option<f64> {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (labels, grown) in self.growth(earlier, name).filter(|(labels, _)| matches(*labels)) {
            let Some(bound) = labels.get("le").and_then(|bound| bound.parse::<f64>().ok()) else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += grown,
                None => buckets.push((bound, grown)),
            }
        }
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let rank = q * buckets.last().map(|(_, all)| *all).filter(|all| *all > 0.0)?;
        let (mut lower, mut below) = (0.0, 0.0);
        for (upper, count) in buckets {
            if count >= rank {
                // Above the last bound nothing is known but that it is above.
                let within = if count > below { (rank - below) / (count - below) } else { 1.0 };
                return Some(if upper.is_finite() { lower + (upper - lower) * within } else { lower });
            }
            (lower, below) = (upper, count);
        }
        None
    }
}

impl<'a> Labels<'a> {
    /// As it was written: what is escaped stays so.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        let mut rest = self.0;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let end = closing_quote(after)?;
            if label.trim_start_matches([',', ' ']) == name {
                return Some(&after[..end]);
            }
            rest = &after[end + 1..];
        }
    }

    #[must_use]
    pub fn is(self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }
}

/// What stands between the braces, and what comes after them.
fn labels_of(text: &str) -> Option<(&str, &str)> {
    let Some(inside) = text.strip_prefix('{') else { return Some(("", text)) };
    let mut at = 0;
    loop {
        let rest = &inside[at..];
        let next = rest.find(['"', '}'])?;
        if rest[next..].starts_with('}') {
            return Some((&inside[..at + next], &inside[at + next + 1..]));
        }
        at += next + 1;
        at += closing_quote(&inside[at..])? + 1;
    }
}

/// Where a value ends that began before `text`.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: [&str; 4] = ["a_total", "b", "took_bucket", "none"];

    fn read(text: &str) -> Samples {
        Samples::read(text, &WANTED)
    }

    #[test]
    fn samples_are_read_with_their_labels_whatever_stands_in_them() {
        let samples = read(
            "# HELP a_total A.\n# TYPE a_total counter\na_total{route=\"/v1/{id}\",by=\"say \\\"}\\\\\"} 3\n\
             a_total{route=\"/\"} 4 1700000000\nb 1.5\nunwanted 7\na_total_more 9\nb{broken 1\nb{x=\"1\"} word\n",
        );
        assert_eq!(samples.sum("a_total", |labels| labels.is("route", "/v1/{id}")), Some(3.0));
        assert_eq!(samples.sum("a_total", |labels| labels.is("by", "say \\\"}\\\\")), Some(3.0));
        assert_eq!(samples.sum("a_total", |_| true), Some(7.0));
        assert_eq!(samples.sum("b", |_| true), Some(1.5));
        assert_eq!(samples.sum("a_total", |labels| labels.is("oute", "/")), None);
        assert_eq!((samples.sum("unwanted", |_| true), samples.sum("none", |_| true)), (None, None));
    }

    #[test]
    fn a_counter_grows_from_zero_where_it_is_new_or_began_anew() {
        let earlier = read("a_total{x=\"1\"} 10\na_total{x=\"2\"} 10\n");
        let later = read("a_total{x=\"1\"} 15\na_total{x=\"2\"} 4\na_total{x=\"3\"} 2\n");
        let grown: Vec<_> = later.growth(&earlier, "a_total").map(|(labels, by)| (labels.get("x"), by)).collect();
        assert_eq!(grown, [(Some("1"), 5.0), (Some("2"), 4.0), (Some("3"), 2.0)]);
    }

    #[test]
    fn a_quantile_lies_where_the_buckets_say_that_it_does() {
        let text = |a: u32, b: u32, c: u32| {
            format!("took_bucket{{le=\"0.1\"}} {a}\ntook_bucket{{le=\"1\"}} {b}\ntook_bucket{{le=\"+Inf\"}} {c}\n")
        };
        let earlier = read(&text(100, 100, 100));
        let later = |a: u32, b: u32, c: u32| read(&text(100 + a, 100 + b, 100 + c));
        let p = |q, samples: Samples| samples.quantile(&earlier, "took_bucket", q, |_| true);
        assert_eq!(p(0.5, later(100, 100, 100)), Some(0.05));
        assert_eq!(p(0.99, later(98, 100, 100)), Some(0.55));
        assert_eq!(p(0.99, later(0, 0, 100)), Some(1.0), "above the last bound it is at least that");
        assert_eq!(p(0.99, later(0, 0, 0)), None);
        let mixed = read(
            "took_bucket{x=\"a\",le=\"1\"} 1\ntook_bucket{x=\"b\",le=\"1\"} 1\ntook_bucket{x=\"b\",le=\"+Inf\"} 1\n",
        );
        let of_b = mixed.quantile(&Samples::default(), "took_bucket", 1.0, |labels| labels.is("x", "b"));
        assert_eq!(of_b, Some(1.0));
    }
}
