//! The log of what clients were answered: JSON lines, in the shape in which the load generator writes its own
//! (`load --answers FILE`), so that the oracle reads both.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use chrono::{DateTime, Utc};
use contracts::{OrderId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request and what its client was told. Fields of a line that are not named here are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// When the answer was there.
    pub at: DateTime<Utc>,
    pub user: UserId,
    #[serde(default)]
    pub key: Option<String>,
    pub method: String,
    pub path: String,
    /// The status, or the word for why there was none, such as `timed_out`.
    pub outcome: String,
    /// The order that the answer speaks of, in an order or in a problem.
    #[serde(default)]
    pub order_id: Option<OrderId>,
    /// That order's status and its reason, as they were told.
    #[serde(default)]
    pub order_status: Option<String>,
    #[serde(default)]
    pub status_reason: Option<String>,
    /// The problem's type.
    #[serde(default)]
    pub problem: Option<String>,
}

impl Answer {
    /// What `body` says, for a client that got it with `status`.
    #[must_use]
    pub fn new(user: UserId, key: Option<&str>, method: &str, path: &str, status: u16, body: &Value) -> Self {
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Self {
            at: Utc::now(),
            user,
            key: key.map(str::to_owned),
            method: method.to_owned(),
            path: path.to_owned(),
            outcome: status.to_string(),
            order_id: text("order_id").or_else(|| text("id")).and_then(|id| id.parse().ok()),
            order_status: text("status"),
            status_reason: text("status_reason"),
            problem: text("type"),
        }
    }

    /// None where no answer came.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.outcome.parse().ok()
    }

    /// The problem's name without what all of them begin with.
    #[must_use]
    pub fn slug(&self) -> Option<&str> {
        self.problem.as_deref().map(|urn| urn.strip_prefix("urn:problem:").unwrap_or(urn))
    }

    #[must_use]
    pub fn places_order(&self) -> bool {
        self.method == "POST" && self.path == "/v1/orders"
    }

    #[must_use]
    pub fn cancels(&self) -> bool {
        self.method == "POST" && self.path.ends_with("/cancel")
    }
}

/// Where clients write what they are told. Every line is whole and on disk before the client goes on, so that a log is
/// of use also after a client died.
#[derive(Debug, Clone)]
pub struct AnswerLog {
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl AnswerLog {
    /// A new and empty one.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: Arc::new(Mutex::new(file)) })
    }

    pub fn write(&self, answer: &Answer) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).with_context(|| format!("cannot write {}", self.path.display()))
    }

    pub fn read(&self) -> anyhow::Result<Vec<Answer>> {
        read(&self.path)
    }
}

/// All lines of a log. One that cannot be read is an error: an oracle that skips evidence proves nothing.
pub fn read(path: &Path) -> anyhow::Result<Vec<Answer>> {
    let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut answers = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {}", path.display()))?;
        let answer = serde_json::from_str(&line)
            .with_context(|| format!("{}: line {} is no answer", path.display(), number + 1))?;
        answers.push(answer);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_order_and_a_problem_are_both_understood() {
        let (user, order) = (UserId::generate(), OrderId::generate());
        let body = json!({"id": order, "status": "rejected", "status_reason": "expired"});
        let told = Answer::new(user, Some("k"), "POST", "/v1/orders", 201, &body);
        assert_eq!((told.status(), told.order_id, told.places_order()), (Some(201), Some(order), true));
        assert_eq!((told.order_status.as_deref(), told.status_reason.as_deref()), (Some("rejected"), Some("expired")));
        let body = json!({"type": "urn:problem:out-of-stock", "status": 409, "order_id": order});
        let told = Answer::new(user, Some("k"), "POST", "/v1/orders", 409, &body);
        assert_eq!((told.slug(), told.order_id), (Some("out-of-stock"), Some(order)));
        assert_eq!(told.order_status, None);
    }

    #[test]
    fn a_line_of_the_load_generator_is_an_answer() {
        let (user, order) = (UserId::generate(), OrderId::generate());
        let line = json!({
            "number": 7, "kind": "place_order", "user": user, "method": "POST", "path": "/v1/orders", "key": "k",
            "body": {}, "request_id": "r", "outcome": "201", "replayed": false, "order_id": order,
            "order_status": "confirmed", "problem": null, "intended_ms": 0.0, "at": "2026-01-01T00:00:00Z",
        });
        let told: Answer = serde_json::from_value(line).unwrap();
        assert_eq!((told.status(), told.order_id), (Some(201), Some(order)));
        let lost = Answer { outcome: "timed_out".to_owned(), ..told };
        assert_eq!(lost.status(), None);
    }

    #[test]
    fn a_log_gives_back_what_was_written_and_refuses_what_is_broken() {
        let path = std::env::temp_dir().join(format!("answers-{}.jsonl", uuid::Uuid::new_v4()));
        let log = AnswerLog::create(&path).unwrap();
        let told = Answer::new(UserId::generate(), None, "GET", "/v1/orders", 200, &json!({"items": []}));
        log.write(&told).unwrap();
        assert_eq!(log.read().unwrap(), [told]);
        fs::write(&path, "{\"at\": 1}\n").unwrap();
        assert!(format!("{:#}", log.read().unwrap_err()).contains("line 1 is no answer"));
        fs::remove_file(path).unwrap();
    }
}
