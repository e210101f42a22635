//! `/v1/operator/reviews`: the attempts that wait for a person, for the console alone.

use actix_web::{HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Query, path},
};
use contracts::{
    AttemptId, Problem,
    order::Page,
    payment::{PaymentReview, PaymentStatus},
};
use serde::Deserialize;

use super::{Api, payments::status};
use crate::error::PaymentError;

/// Items of one page unless asked otherwise, and at most.
const DEFAULT_LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

/// Those that wait, oldest first.
#[utoipa::path(
    get,
    path = "/v1/operator/reviews",
    tag = "operator",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, body = Page<PaymentReview>),
        (status = 400, description = "`invalid-request`: a bad limit or cursor", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "`forbidden`: not the console", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`storage-unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`", body = Problem, content_type = "application/problem+json"),
    ),
    security(("internal" = []))
)]
pub async fn list(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let limit = match query.0.limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => limit,
        _ => return Err(PaymentError::BadParameter("limit", "must be 1 to 100").into()),
    };
    let after = match query.0.cursor {
        None => None,
        Some(text) => {
            Some(text.parse::<AttemptId>().map_err(|_| PaymentError::BadParameter("cursor", "is none of ours"))?)
        }
    };
    let payments = api.payments.clone();
    // One more than asked for, to know whether there is a next page.
    let work = async move { payments.reviews(after, limit + 1, context.deadline).await };
    let mut items = api.lifecycle.run(work).await.map_err(PaymentError::from)??;
    let more = i64::try_from(items.len()).is_ok_and(|read| read > limit);
    if more {
        items.pop();
    }
    let next_cursor = items.last().filter(|_| more).map(|last| last.attempt_id.to_string());
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}

/// Has the provider asked now what became of an attempt, without waiting for the next time that it would be.
#[utoipa::path(
    post,
    path = "/v1/operator/reviews/{attempt_id}/ask",
    tag = "operator",
    params(("attempt_id" = AttemptId, Path)),
    responses(
        (status = 200, description = "Nothing is open any more: the attempt as it is.", body = PaymentStatus),
        (status = 202, description = "The provider is being asked.", body = PaymentStatus),
        (status = 400, description = "`invalid-request`: a header that cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "`forbidden`: not the console", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`not-found`", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`storage-unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`", body = Problem, content_type = "application/problem+json"),
    ),
    security(("internal" = []))
)]
pub async fn ask(
    api: web::Data<Api>,
    context: RequestContext,
    request: actix_web::HttpRequest,
) -> Result<HttpResponse, ApiProblem> {
    let id: AttemptId = path(&request, "attempt_id")?;
    let payments = api.payments.clone();
    let work = async move { payments.ask_again(context, id).await };
    let (attempt, asked) = api.lifecycle.run(work).await.map_err(PaymentError::from)??;
    let mut answer = if asked { HttpResponse::Accepted() } else { HttpResponse::Ok() };
    Ok(answer.json(status(attempt)))
}
