//! Problems as answers of the web server, and one handler for each error that the framework finds by itself.

use std::fmt;

use actix_web::{
    HttpRequest, HttpResponse, ResponseError,
    http::{StatusCode, header},
};
use contracts::{Problem, ProblemType, headers};

/// A refusal on its way to the client.
#[derive(Debug, Clone)]
pub struct ApiProblem(pub Box<Problem>);

impl<P: Into<Problem>> From<P> for ApiProblem {
    fn from(problem: P) -> Self {
        Self(Box::new(problem.into()))
    }
}

impl fmt::Display for ApiProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.detail)
    }
}

impl ResponseError for ApiProblem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        respond(&self.0)
    }
}

/// The answer for `problem`.
#[must_use]
pub fn respond(problem: &Problem) -> HttpResponse {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CONTENT_TYPE, headers::PROBLEM_JSON));
    if let Some(seconds) = problem.retry_after_seconds() {
        response.insert_header((header::RETRY_AFTER, seconds));
    }
    if problem.kind == ProblemType::Unauthenticated {
        response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    // A problem is strings and numbers; it always serializes.
    response.body(serde_json::to_string(problem).unwrap_or_default())
}

/// 500 without a word of what happened; that goes to the log, under the request's id.
#[must_use]
pub fn internal() -> Problem {
    Problem::new(ProblemType::Internal, "the request failed; its id is in the log")
}

#[must_use]
pub fn not_found(what: &str) -> Problem {
    Problem::new(ProblemType::NotFound, what)
}

/// For `default_service` of the application.
pub async fn unknown_path(request: HttpRequest) -> HttpResponse {
    respond(&not_found(&format!("there is nothing at {}", request.path())))
}

/// For `default_service` of a resource: 405, and which methods there are.
pub fn only(allowed: &'static str) -> actix_web::Route {
    actix_web::web::route().to(move |request: HttpRequest| async move {
        let detail = format!("{} is not allowed here, only {allowed}", request.method());
        let mut response = respond(&Problem::new(ProblemType::MethodNotAllowed, detail));
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allowed));
        response
    })
}

/// What the framework says with a bare status, said as a problem.
#[must_use]
pub fn of_bare_status(status: StatusCode) -> Problem {
    let kind = ProblemType::of_status(status.as_u16());
    if kind == ProblemType::Internal {
        return internal();
    }
    Problem::new(kind, status.canonical_reason().unwrap_or("the request was refused"))
}
