//! How the people behind the traffic differ from independent, patient ones: a few of them want most, some send the same
//! request many times at once, and some do not take no for an answer.
//!
//! A retry is the one thing here that hangs on what the system answers. It is the client's own, on top of the open loop:
//! arrivals stay where they are, and what retries add is counted apart. A client that retries keeps its key, unless it is
//! one that starts over.

use std::time::Duration;

use crate::request::{Answer, Outcome};

/// The default crowd is of independent people who ask once.
#[derive(Debug, Clone, PartialEq)]
pub struct Crowd {
    /// The share of all requests that one user makes.
    pub hot_user: f64,
    /// How many times each order is sent, all at once and with one key.
    pub copies: u32,
    pub retry: Option<Retry>,
}

/// A client that asks again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// After the first try, at most.
    pub times: u32,
    /// Between an answer and the next try.
    pub pause: Duration,
    /// The outcomes that it does not accept: `503`, `5xx`, `timed_out`, `not_sent`, `broken` …
    pub on: Vec<String>,
    /// Whether it starts over, with a new key, as somebody does who fills in the form once more.
    pub new_key: bool,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { hot_user: 0.0, copies: 1, retry: None }
    }
}

impl Crowd {
    /// How the client asks again after this answer, if it does.
    #[must_use]
    pub fn asks_again(&self, answer: &Answer) -> Option<&Retry> {
        let unsatisfied = |retry: &&Retry| retry.on.iter().any(|name| answer.outcome.is(name));
        self.retry.as_ref().filter(unsatisfied).filter(|retry| answer.request.attempt < retry.times)
    }
}

impl Outcome {
    /// Whether it goes by this name: a status, `2xx`, `4xx`, `5xx`, `timed_out`, `not_sent` or `broken`.
    #[must_use]
    pub fn is(self, name: &str) -> bool {
        match (self, name) {
            (Self::Status(status), "2xx") => status / 100 == 2,
            (Self::Status(status), "4xx") => status / 100 == 4,
            (Self::Status(status), "5xx") => status / 100 == 5,
            _ => self.to_string() == name,
        }
    }

    /// Whether [`Self::is`] can hold for this name.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        name.parse::<u16>().is_ok_and(|status| (100..600).contains(&status))
            || ["2xx", "4xx", "5xx", "timed_out", "not_sent", "broken"].contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_goes_by_its_status_its_class_or_its_word() {
        assert!(Outcome::Status(503).is("503") && Outcome::Status(503).is("5xx") && !Outcome::Status(503).is("4xx"));
        assert!(Outcome::TimedOut.is("timed_out") && !Outcome::TimedOut.is("5xx"));
        for name in ["201", "2xx", "broken"] {
            assert!(Outcome::is_name(name), "{name}");
        }
        for name in ["3xx", "99", "gone", ""] {
            assert!(!Outcome::is_name(name), "{name}");
        }
    }
}
