//! `/v1/rules/current` and `/v1/rules/applied`, for services: what to run on, and what one runs on.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::header, middleware::from_fn, web};
use chassis::{
    ApiProblem, RequestContext,
    auth::{self, Caller},
    extract::{Body, Query},
    guards::Place,
    problem,
};
use contracts::{
    Service,
    ruling::{AppliedRules, CurrentRules, MAX_WAIT_MS, VersionState},
    validate::Violations,
};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::Api;
use crate::{
    Error,
    domain::{InForce, Meant},
};

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/v1/rules/current")
                .wrap(from_fn(auth::require_caller))
                .get(current)
                .default_service(problem::only("GET")),
        )
        .service(
            web::resource("/v1/rules/applied")
                .wrap(from_fn(auth::require_caller))
                .post(applied)
                .default_service(problem::only("POST")),
        );
}

/// For the answer to travel back.
const RESERVE: Duration = Duration::from_millis(100);

/// As text, so that a refusal can name the one that is wrong.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CurrentQuery {
    service: String,
    /// By name: `order-0`.
    instance: String,
    /// How long to wait for news, at most 30 000; by default not at all.
    wait_ms: Option<String>,
}

/// What an instance is to run on, once that is another than it has seen.
#[utoipa::path(
    get, path = "/v1/rules/current", tag = "services", security(("internal_token" = [])),
    params(
        CurrentQuery,
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the last answer"),
    ),
    responses(
        (status = 200, body = CurrentRules, description = "A version, with its number as `ETag`"),
        (status = 204, description = "What was in force was taken back: the instance runs on rules of its own. `ETag` is \"0\""),
        (status = 304, description = "Nothing new within the wait"),
        (status = 400, description = "`invalid-request`, naming `service`, `instance`, `wait_ms` or the `query`"),
        (status = 404, description = "`not-found`: nothing was ever in force, and the instance stays with what it has"),
    )
)]
pub(super) async fn current(
    request: HttpRequest,
    context: RequestContext,
    caller: Caller,
    place: Place,
    api: web::Data<Api>,
    query: Query<CurrentQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let wait = read(&query.0)?;
    let service: Service =
        query.0.service.parse().map_err(|_| Error::BadQuery { field: "service", detail: "must be a service" })?;
    is_own(&caller, service)?;
    let seen = seen(&request);
    let (board, lifecycle, instance) = (api.rulebook.board.clone(), api.lifecycle.clone(), query.0.instance);
    // What the caller still waits, less what the answer needs to get there.
    let until = Instant::now() + context.deadline.child(wait, RESERVE).unwrap_or_default();
    let work = async move {
        let waiting = place.wait();
        // Where as many wait as may, what is known now is an answer too.
        let until = if waiting.is_some() { until } else { Instant::now() };
        let in_force = board.news(&instance, seen, until, || lifecycle.is_draining()).await;
        (in_force, instance)
    };
    let (in_force, instance) = api.lifecycle.run(work).await.map_err(|_| problem::internal())?;
    Ok(render(&in_force, &instance, seen))
}

fn read(query: &CurrentQuery) -> Result<Duration, Error> {
    let mut violations = Violations::default();
    violations.code(&query.instance, "instance");
    violations
        .finish()
        .map_err(|_| Error::BadQuery { field: "instance", detail: "must be 1 to 64 visible ASCII characters" })?;
    let wait = match &query.wait_ms {
        None => 0,
        Some(text) => text
            .parse()
            .ok()
            .filter(|wait| *wait <= MAX_WAIT_MS)
            .ok_or(Error::BadQuery { field: "wait_ms", detail: "must be 0 to 30000" })?,
    };
    Ok(Duration::from_millis(wait))
}

fn is_own(caller: &Caller, service: Service) -> Result<(), Error> {
    if caller.0 == service.as_str() { Ok(()) } else { Err(Error::NotYours(caller.0.clone())) }
}

/// The tag of the last answer; one that we never gave counts as none.
fn seen(request: &HttpRequest) -> Option<i64> {
    let tag = request.headers().get(header::IF_NONE_MATCH)?.to_str().ok()?;
    tag.trim().trim_matches('"').parse().ok()
}

fn render(in_force: &InForce, instance: &str, seen: Option<i64>) -> HttpResponse {
    let meant = in_force.meant_for(instance);
    let tag = |tag: i64| (header::ETAG, format!("\"{tag}\""));
    let of = |held: &crate::domain::Held, state| {
        let rules = CurrentRules { version: held.version, document: held.document.to_string(), state };
        HttpResponse::Ok().insert_header(tag(held.version)).json(rules)
    };
    match meant {
        Meant::Unsaid => problem::respond(&problem::not_found("no version of the rules was ever in force")),
        _ if !meant.is_news_to(seen) => HttpResponse::NotModified().finish(),
        Meant::ItsOwn => HttpResponse::NoContent().insert_header(tag(0)).finish(),
        Meant::Active(held) => of(held, VersionState::Active),
        Meant::Canary(held) => of(held, VersionState::Canary),
    }
}

/// What an instance runs on now.
#[utoipa::path(
    post, path = "/v1/rules/applied", tag = "services", security(("internal_token" = [])), request_body = AppliedRules,
    responses((status = 204, description = "Written down"))
)]
pub(super) async fn applied(
    context: RequestContext,
    caller: Caller,
    api: web::Data<Api>,
    body: Body<AppliedRules>,
) -> Result<HttpResponse, ApiProblem> {
    is_own(&caller, body.0.service)?;
    let rulebook = api.rulebook.clone();
    let work = async move { rulebook.applied(&body.0, context.deadline).await };
    api.lifecycle.run(work).await.map_err(|_| problem::internal())??;
    Ok(HttpResponse::NoContent().finish())
}
