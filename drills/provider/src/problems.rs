//! Every refusal as a problem body, those of the framework included.

use std::fmt;

use actix_web::{
    HttpResponse, ResponseError,
    error::{PathError, QueryPayloadError},
    http::{StatusCode, header},
    web,
};
use contracts::{FieldError, Problem, ProblemType, headers};

use crate::ledger::{Refused, Unwritable};

#[derive(Debug)]
pub struct Refusal(Box<Problem>);

impl Refusal {
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Problem::new(kind, detail).into()
    }

    /// A failure that was asked for, with a status that the problem types need not know.
    pub fn simulated(status: u16) -> Self {
        let problem = Problem::new(ProblemType::of_status(status), "the simulator was told to fail");
        Problem { status, ..problem }.with_mechanism("simulated").into()
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Vec<FieldError>> for Refusal {
    fn from(errors: Vec<FieldError>) -> Self {
        Problem::validation(errors).into()
    }
}

impl From<Unwritable> for Refusal {
    fn from(error: Unwritable) -> Self {
        Self::new(ProblemType::StorageUnavailable, error.to_string())
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::KeyReused => Self::new(ProblemType::IdempotencyKeyReused, refused.to_string()),
            Refused::NoSuchCharge => Self::new(ProblemType::NotFound, refused.to_string()),
            Refused::MoreThanLeft { left_minor } => Problem::new(ProblemType::ValidationFailed, refused.to_string())
                .with_field("amount_minor", format!("must be at most {left_minor}"))
                .with("left_minor", left_minor)
                .into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if let Some(seconds) = self.0.retry_after_seconds() {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        response.content_type(headers::PROBLEM_JSON).body(body)
    }
}

pub async fn unknown_path() -> Result<HttpResponse, Refusal> {
    Err(Refusal::new(ProblemType::NotFound, "there is nothing at this path"))
}

pub fn path_config() -> web::PathConfig {
    web::PathConfig::default()
        .error_handler(|error: PathError, _| Refusal::new(ProblemType::NotFound, error.to_string()).into())
}

pub fn query_config() -> web::QueryConfig {
    web::QueryConfig::default().error_handler(|error: QueryPayloadError, _| {
        Refusal::new(ProblemType::InvalidRequest, error.to_string()).into()
    })
}
