//! `/v1/payments/{attempt_id}/refunds`.

use actix_web::{HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Body, path},
};
use contracts::{
    AttemptId, Problem,
    payment::{RefundCharge, RefundState, RefundStatus},
};

use super::Api;
use crate::error::PaymentError;

/// Gives money back, once a `refund_id`.
#[utoipa::path(
    post,
    path = "/v1/payments/{attempt_id}/refunds",
    tag = "payments",
    params(("attempt_id" = AttemptId, Path)),
    request_body = RefundCharge,
    responses(
        (status = 200, description = "The provider made it.", body = RefundStatus),
        (status = 202, description = "On record: it is sent until the provider makes it.", body = RefundStatus),
        (status = 400, description = "`invalid-request`", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`not-found`", body = Problem, content_type = "application/problem+json"),
        (status = 405, description = "`method-not-allowed`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`payload-too-large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported-media-type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation-failed`: nothing was charged, or less than that is left; or `content-mismatch`: the refund exists with other content", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`storage-unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`: refused on arrival", body = Problem, content_type = "application/problem+json"),
    ),
    security(("internal" = []))
)]
pub async fn request(
    api: web::Data<Api>,
    context: RequestContext,
    request: actix_web::HttpRequest,
    body: Body<RefundCharge>,
) -> Result<HttpResponse, ApiProblem> {
    let id: AttemptId = path(&request, "attempt_id")?;
    let payments = api.payments.clone();
    let work = async move { payments.refund(context, id, body.0).await };
    let refund = api.lifecycle.run(work).await.map_err(PaymentError::from)??;
    let status = RefundStatus {
        refund_id: refund.id,
        state: refund.state,
        amount_minor: refund.amount_minor,
        currency: refund.currency,
    };
    Ok(match refund.state {
        RefundState::Refunded => HttpResponse::Ok().json(status),
        RefundState::Requested | RefundState::Sent | RefundState::Review => HttpResponse::Accepted().json(status),
    })
}
