//! `/v1/operator/reviews` and `/v1/operator/refund-reviews`: what waits for a person, for the console alone.

use std::str::FromStr;

use actix_web::{HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Query, path},
};
use contracts::{
    AttemptId, Problem,
    order::Page,
    payment::{PaymentReview, PaymentStatus, RefundReview},
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

impl ListQuery {
    /// How many, and from above which.
    fn read<T: FromStr>(self) -> Result<(i64, Option<T>), PaymentError> {
        let limit = match self.limit.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MAX_LIMIT => limit,
            _ => return Err(PaymentError::BadParameter("limit", "must be 1 to 100")),
        };
        let after = self.cursor.map(|text| text.parse()).transpose();
        Ok((limit, after.map_err(|_| PaymentError::BadParameter("cursor", "is none of ours"))?))
    }
}

/// Of one more than asked for, which tells whether there is a next page.
fn page<T>(mut items: Vec<T>, limit: i64, id: impl Fn(&T) -> String) -> Page<T> {
    let more = i64::try_from(items.len()).is_ok_and(|read| read > limit);
    if more {
        items.pop();
    }
    let next_cursor = items.last().filter(|_| more).map(id);
    Page { items, next_cursor }
}

/// The attempts that wait, oldest first.
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
    let (limit, after) = query.0.read()?;
    let payments = api.payments.clone();
    let work = async move { payments.reviews(after, limit + 1, context.deadline).await };
    let items = api.lifecycle.run(work).await.map_err(PaymentError::from)??;
    Ok(HttpResponse::Ok().json(page(items, limit, |review| review.attempt_id.to_string())))
}

/// The refunds that wait, oldest first.
#[utoipa::path(
    get,
    path = "/v1/operator/refund-reviews",
    tag = "operator",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, body = Page<RefundReview>),
        (status = 400, description = "`invalid-request`: a bad limit or cursor", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "`forbidden`: not the console", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`storage-unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`", body = Problem, content_type = "application/problem+json"),
    ),
    security(("internal" = []))
)]
pub async fn refunds(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let (limit, after) = query.0.read()?;
    let payments = api.payments.clone();
    let work = async move { payments.refund_reviews(after, limit + 1, context.deadline).await };
    let items = api.lifecycle.run(work).await.map_err(PaymentError::from)??;
    Ok(HttpResponse::Ok().json(page(items, limit, |review| review.refund_id.to_string())))
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
