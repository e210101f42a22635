//! What travels with a request, and the middleware that sets it up and sees every request out.
//!
//! It is the outermost layer: whatever happens further in, even a panic, leaves here as an answer with a request id,
//! a problem body where it is a refusal, and a count in the metrics.

use std::{
    future::{Ready, ready},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use actix_web::{
    Error, FromRequest, HttpMessage, HttpRequest, HttpResponse,
    body::MessageBody,
    dev::{Payload, ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{ConnectionType, Method, StatusCode, header},
    middleware::Next,
    web,
};
use contracts::{Problem, ProblemType, Service, headers, trace::TraceContext};
use futures_util::FutureExt;
use resilience::{Deadline, retry::Purse};
use rules::{Criticality, Rules, RulesHandle};
use tokio::time::Instant;
use traces::{Kind, Span};
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    ApiProblem, Lifecycle, auth, browser,
    guards::{Guards, Refused},
    problem,
};

/// Retries of a chain of calls that begins with a job. Those of a request follow the rules.
const JOB_RETRIES: u32 = 3;

/// The context of one request, or of one round of a job.
#[derive(Debug, Clone)]
pub struct RequestContext {
    pub request_id: Arc<str>,
    pub trace: TraceContext,
    pub deadline: Deadline,
    /// What is left of the chain's retries; clones of the context share it.
    pub purse: Purse,
    /// What is passed on to whoever is called in the course of it.
    pub criticality: Criticality,
    /// Who wants it: a tenant, a calling service, [`USERS`], [`OPERATORS`] or [`JOBS`].
    pub consumer: Arc<str>,
    /// The route that was asked for, as rules name it, or the job.
    pub api: Arc<str>,
    /// The span of a job, which ends with the last clone of this; that of a request ends with its answer.
    pub job: Option<Arc<Span>>,
}

/// The consumer of requests by users without a tenant.
pub const USERS: &str = "users";
/// The consumer of requests by operators.
pub const OPERATORS: &str = "operators";
/// The consumer of what no request asked for.
pub const JOBS: &str = "jobs";
/// The API of a request to no route that rules can name, and the consumer of one that nobody vouches for.
const NONE: &str = "none";

impl RequestContext {
    /// For work that no request asked for, within the trace of what it follows from, or one of its own.
    #[must_use]
    pub fn for_job(name: &'static str, follows: Option<TraceContext>, budget: Duration) -> Self {
        let trace = follows.map_or_else(TraceContext::root, |before| before.child());
        let span = Span::begin(Kind::Internal, trace, follows, || name.into());
        Self { job: span.context().map(|_| Arc::new(span)), trace, ..Self::for_look(name, budget) }
    }

    /// For a look whether a job has anything to do, of which no trace shall tell.
    #[must_use]
    pub fn for_look(name: &'static str, budget: Duration) -> Self {
        Self {
            request_id: format!("{name}-{}", Uuid::now_v7()).into(),
            job: None,
            trace: TraceContext::root(),
            deadline: Deadline::after(budget),
            purse: Purse::new(JOB_RETRIES),
            // It finishes what a request began.
            criticality: Criticality::Critical,
            consumer: JOBS.into(),
            api: name.into(),
        }
    }
}

impl FromRequest for RequestContext {
    type Error = ApiProblem;
    type Future = Ready<Result<Self, ApiProblem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let found = request.extensions().get::<Self>().cloned();
        // Missing only where the middleware is not installed, which every test of a route would show.
        ready(found.ok_or_else(|| problem::internal().into()))
    }
}

/// What the middleware needs to know of the application; one a process.
pub struct Shared {
    pub service: Service,
    pub rules: RulesHandle,
    pub lifecycle: Lifecycle,
    pub guards: Arc<Guards>,
}

/// Trace, request id, deadline, and the answer's last touches.
pub async fn observe<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let Some(shared) = request.app_data::<web::Data<Shared>>().cloned() else {
        return Err(ApiProblem::from(problem::internal()).into());
    };
    let started = Instant::now();
    let _in_flight = shared.lifecycle.begin_request();
    let request_id = request_id(&request);
    let path = shared.service.is_for_browsers().then(|| request.path().to_owned());
    let parent = header_text(&request, headers::TRACEPARENT).and_then(|text| text.parse::<TraceContext>().ok());
    let trace = parent.map_or_else(TraceContext::root, |parent| parent.child());
    let method = known_method(request.method());
    let route = request.match_pattern();
    let label = route.clone().unwrap_or_else(|| "unmatched".to_owned());
    let mut traced = Span::begin(Kind::Server, trace, parent, || format!("{method} {label}").into());
    traced.set("http.request.method", method);
    traced.set_display("http.route", &label);
    let span = tracing::info_span!(
        "http", service = %shared.service, method, route = %label, request_id = %request_id, trace_id = %trace.trace_id()
    );

    let rules = shared.rules.current();
    let purse = purse(&request, rules.chain.retries);
    // What goes back to a service that lent us its purse; to nobody else.
    let lent = purse.as_ref().ok().filter(|_| auth::is_caller(&request)).cloned();
    let outcome = async {
        let deadline = deadline(&request, &rules, method, route.as_deref())?;
        let purse = purse?;
        let criticality = rules.route(method, route.as_deref().unwrap_or_default()).criticality;
        let (consumer, api) = (NONE.into(), api(method, route.as_deref()).into());
        let context = RequestContext {
            request_id: request_id.clone(),
            trace,
            deadline,
            purse,
            criticality,
            consumer,
            api,
            job: None,
        };
        request.extensions_mut().insert(context);
        match AssertUnwindSafe(next.call(request)).catch_unwind().await {
            Ok(answer) => answer,
            Err(_) => {
                tracing::error!("a handler panicked");
                Err(ApiProblem::from(problem::internal()).into())
            }
        }
    }
    .instrument(span.clone())
    .await;

    let mut finish = |response: &mut HttpResponse| {
        if let Ok(id) = header::HeaderValue::from_str(&request_id) {
            response.headers_mut().insert(header::HeaderName::from_static(headers::REQUEST_ID), id);
        }
        if let Some(purse) = &lent {
            let left = purse.handed_back(!response.status().is_server_error());
            response.headers_mut().insert(header::HeaderName::from_static(headers::RETRY_LEFT), left.into());
        }
        if let Some(path) = &path {
            browser::protect(response.headers_mut(), path);
        }
        if shared.lifecycle.is_draining() {
            // Not as a header: the server writes that one itself, and passes ours over.
            response.head_mut().set_connection_type(ConnectionType::Close);
        }
        count(&shared.service, &label, method, response.status(), started.elapsed());
        traced.set("http.response.status_code", response.status().as_u16());
        if response.status().is_server_error() {
            traced.fail("a server error");
        }
        let is_logged = response.extensions().get::<Refused>().is_some();
        if response.status().is_server_error() && !is_logged {
            span.in_scope(|| tracing::warn!(status = response.status().as_u16(), "answered with an error"));
        } else {
            span.in_scope(|| tracing::debug!(status = response.status().as_u16(), "answered"));
        }
    };
    match outcome {
        Ok(answer) => {
            let mut answer = answer.map_into_boxed_body();
            if is_bare_refusal(answer.response()) {
                let body = problem::respond(&problem::of_bare_status(answer.status()));
                answer = answer.into_response(body);
            }
            let told = answer.response().error().and_then(|error| with_version(error, rules.version));
            if let Some(problem) = told {
                // The headers stay: some were set on the way out.
                answer = answer.map_body(|_, _| problem::respond(&problem).into_body());
            }
            finish(answer.response_mut());
            Ok(answer)
        }
        Err(error) => {
            let mut response = match with_version(&error, rules.version) {
                Some(problem) => problem::respond(&problem),
                None => error.as_response_error().error_response(),
            };
            if is_bare_refusal(&response) {
                response = problem::respond(&problem::of_bare_status(response.status()));
            }
            finish(&mut response);
            Err(InternalError::from_response(error, response).into())
        }
    }
}

/// A refusal that names its mechanism and does not yet say which rules were in force: the workflows further in do not
/// carry the rules along only to say so.
fn with_version(error: &Error, version: i64) -> Option<Problem> {
    let problem = &error.as_error::<ApiProblem>()?.0;
    let lacks_it = problem.mechanism.is_some() && problem.rule_version.is_none();
    lacks_it.then(|| Problem { rule_version: Some(version), ..(**problem).clone() })
}

fn is_bare_refusal(response: &HttpResponse) -> bool {
    let status = response.status();
    let is_problem = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(headers::PROBLEM_JSON.as_bytes()));
    (status.is_client_error() || status.is_server_error()) && !is_problem
}

fn header_text<'a>(request: &'a ServiceRequest, name: &str) -> Option<&'a str> {
    request.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The caller's id where it is a plain one, else a new one.
fn request_id(request: &ServiceRequest) -> Arc<str> {
    header_text(request, headers::REQUEST_ID)
        .filter(|id| (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()))
        .map_or_else(|| Uuid::now_v7().to_string().into(), Into::into)
}

/// The route by the name that rules have for it.
fn api(method: &str, route: Option<&str>) -> &'static str {
    let is_named =
        |name: &&&str| name.split_once(' ').is_some_and(|(of, pattern)| of == method && Some(pattern) == route);
    rules::ROUTES.iter().find(is_named).copied().unwrap_or(NONE)
}

/// Label values come from a fixed set: a client can send any word as its method.
fn known_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

/// What the caller still waits, clamped to the route's own limit; refused at once where nothing useful fits.
fn deadline(
    request: &ServiceRequest,
    rules: &Rules,
    method: &str,
    route: Option<&str>,
) -> Result<Deadline, ApiProblem> {
    let rule = rules.route(method, route.unwrap_or_default());
    let waits = whole_number(request, headers::EXPECTED_TIMEOUT_MS)?.map(Duration::from_millis);
    let deadline = Deadline::for_request(waits, rule.timeout);
    deadline
        .require(rule.min_useful_budget)
        .map_err(|late| Problem::new(ProblemType::DeadlineExceeded, late.to_string()).with_mechanism("deadline"))?;
    Ok(deadline)
}

/// A caller can lower the budget and not raise it.
fn purse(request: &ServiceRequest, full: u32) -> Result<Purse, ApiProblem> {
    let asked = whole_number(request, headers::RETRY_BUDGET)?;
    Ok(Purse::new(asked.map_or(full, |n| u32::try_from(n).unwrap_or(u32::MAX)).min(full)))
}

fn whole_number(request: &ServiceRequest, name: &str) -> Result<Option<u64>, ApiProblem> {
    let Some(value) = request.headers().get(name) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits {
        let problem = Problem::new(ProblemType::InvalidRequest, format!("{name} is no whole number"));
        return Err(problem.with_field(name, "must be a whole number").into());
    }
    // More digits than fit mean "longer than anybody waits".
    Ok(Some(text.parse().unwrap_or(u64::MAX)))
}

fn count(service: &Service, route: &str, method: &'static str, status: StatusCode, took: Duration) {
    let (service, route) = (service.as_str(), route.to_owned());
    metrics::counter!(
        "http_requests_total", "service" => service, "route" => route.clone(), "method" => method,
        "status" => status.as_str().to_owned()
    )
    .increment(1);
    metrics::histogram!("http_request_duration_seconds", "service" => service, "route" => route, "method" => method)
        .record(took.as_secs_f64());
}
