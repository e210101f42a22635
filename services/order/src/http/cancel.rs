//! `/v1/orders/{order_id}/cancel`

use actix_web::{HttpResponse, http::header, web};
use chassis::{ApiProblem, RequestContext, auth::User, extract::PathId};
use contracts::{
    OrderId,
    order::{Order, OrderStatus},
};

use super::{
    Api,
    orders::{PENDING_RETRY_AFTER_SECONDS, own},
    render::resource,
};
use crate::error::Error;

/// Take an order back.
#[utoipa::path(
    post, path = "/v1/orders/{order_id}/cancel", tag = "orders", security(("user" = [])),
    params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, description = "Cancelled, now or before. What was charged is paid back: `payment.state` says how far that is", body = Order),
        (status = 202, description = "Whether it was charged is not known yet; it will be cancelled either way", body = Order),
        (status = 400, description = "Malformed header", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 404, description = "You have no such order", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 409, description = "`not-cancellable`: it was rejected", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn cancel(
    context: RequestContext,
    user: User,
    api: web::Data<Api>,
    id: PathId<OrderId>,
) -> Result<HttpResponse, ApiProblem> {
    let workflow = api.workflow.clone();
    let work = async move {
        own(&workflow, &user, id.0, context.deadline).await?;
        workflow.cancel(&context, id.0).await
    };
    // The client may hang up; the work goes on.
    let order = api.lifecycle.run(work).await.map_err(Error::from)??;
    if order.status == OrderStatus::Cancelled {
        return Ok(HttpResponse::Ok().json(resource(order)));
    }
    Ok(HttpResponse::Accepted()
        .insert_header((header::LOCATION, format!("/v1/orders/{}", order.id)))
        .insert_header((header::RETRY_AFTER, PENDING_RETRY_AFTER_SECONDS))
        .json(resource(order)))
}
