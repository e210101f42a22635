//! `/v1/payments/{attempt_id}`.

use actix_web::{HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Body, PathId},
};
use contracts::{
    AttemptId, Problem,
    payment::{AttemptState, Charge, PaymentStatus},
};
use tokio::time::timeout_at;

use super::Api;
use crate::{domain::attempt::Attempt, error::PaymentError, workflow::charge::Reported};

/// Charges once; sent again it reports the attempt and never charges again.
#[utoipa::path(
    put,
    path = "/v1/payments/{attempt_id}",
    tag = "payments",
    params(("attempt_id" = AttemptId, Path)),
    request_body = Charge,
    responses(
        (status = 200, description = "Approved or declined.", body = PaymentStatus),
        (status = 202, description = "It may have been charged; nothing tells yet. `state` is `unknown`.", body = PaymentStatus),
        (status = 400, description = "`invalid-request`", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`not-found`: the path names no attempt id", body = Problem, content_type = "application/problem+json"),
        (status = 405, description = "`method-not-allowed`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`payment-fenced`: it will never be sent", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`payload-too-large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported-media-type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation-failed`, or `content-mismatch`: the attempt exists with other content", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`payment-not-dispatched`: certainly not sent, `reason` says why; or `storage-unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`: refused on arrival", body = Problem, content_type = "application/problem+json"),
    ),
    security(("internal" = []))
)]
pub async fn charge(
    api: web::Data<Api>,
    context: RequestContext,
    id: PathId<AttemptId>,
    body: Body<Charge>,
) -> Result<HttpResponse, ApiProblem> {
    let deadline = context.deadline;
    let payments = api.payments.clone();
    let work = async move { payments.charge(context, id.0, body.0).await };
    // The work goes on after the deadline, to record what the provider says; the answer does not wait for that.
    let reported = match timeout_at(deadline.instant(), api.lifecycle.run(work)).await {
        Ok(done) => done.map_err(PaymentError::from)??,
        Err(_) => Reported::Undecided,
    };
    Ok(match reported {
        Reported::Settled(attempt) => HttpResponse::Ok().json(status(*attempt)),
        Reported::Undecided => HttpResponse::Accepted().json(PaymentStatus {
            state: AttemptState::Unknown,
            channel: None,
            provider_ref: None,
            decline_code: None,
        }),
    })
}

/// The attempt as it is.
#[utoipa::path(
    get,
    path = "/v1/payments/{attempt_id}",
    tag = "payments",
    params(("attempt_id" = AttemptId, Path)),
    responses(
        (status = 200, body = PaymentStatus),
        (status = 400, description = "`invalid-request`: a header that cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`not-found`", body = Problem, content_type = "application/problem+json"),
        (status = 405, description = "`method-not-allowed`", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`storage-unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`", body = Problem, content_type = "application/problem+json"),
    ),
    security(("internal" = []))
)]
pub async fn get(
    api: web::Data<Api>,
    context: RequestContext,
    id: PathId<AttemptId>,
) -> Result<HttpResponse, ApiProblem> {
    let payments = api.payments.clone();
    let work = async move { payments.get(id.0, context.deadline).await };
    let attempt = api.lifecycle.run(work).await.map_err(PaymentError::from)??;
    Ok(HttpResponse::Ok().json(status(attempt)))
}

/// Makes sure that an attempt is never sent, if it certainly was not; else changes nothing and reports it.
#[utoipa::path(
    post,
    path = "/v1/payments/{attempt_id}/fence",
    tag = "payments",
    params(("attempt_id" = AttemptId, Path)),
    responses(
        (status = 200, description = "The attempt after the fence; `fenced` if it was granted.", body = PaymentStatus),
        (status = 400, description = "`invalid-request`: a header that cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`not-found`: the path names no attempt id", body = Problem, content_type = "application/problem+json"),
        (status = 405, description = "`method-not-allowed`", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`storage-unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`", body = Problem, content_type = "application/problem+json"),
    ),
    security(("internal" = []))
)]
pub async fn fence(
    api: web::Data<Api>,
    context: RequestContext,
    id: PathId<AttemptId>,
) -> Result<HttpResponse, ApiProblem> {
    let payments = api.payments.clone();
    let work = async move { payments.fence(context, id.0).await };
    let attempt = api.lifecycle.run(work).await.map_err(PaymentError::from)??;
    Ok(HttpResponse::Ok().json(status(attempt)))
}

pub(super) fn status(attempt: Attempt) -> PaymentStatus {
    PaymentStatus {
        state: attempt.state,
        channel: attempt.channel,
        provider_ref: attempt.provider_ref,
        decline_code: attempt.decline_code,
    }
}
