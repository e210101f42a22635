//! `/v1/reservations/{order_id}`: what an order holds.

use actix_web::{HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Body, PathId},
};
use contracts::{
    OrderId,
    inventory::{Reservation, ReserveStock},
};

use super::Api;
use crate::{
    Error,
    domain::Command,
    store::reservations,
    workflow::{self, Reserved},
};

#[utoipa::path(
    put, path = "/v1/reservations/{order_id}", tag = "reservations",
    params(("order_id" = OrderId, Path)), request_body = ReserveStock,
    responses(
        (status = 201, body = Reservation, description = "All items are held, at the prices given"),
        (status = 200, body = Reservation, description = "They were held before"),
        (status = 404, description = "`not-found`: the path holds no order id"),
        (status = 409, description = "`out-of-stock` with `sku` and `available`; `reservation-released`"),
        (status = 422, description = "`unknown-sku` with `sku`; `content-mismatch`; `validation-failed`"),
    )
)]
pub(super) async fn reserve(
    api: web::Data<Api>,
    context: RequestContext,
    order: PathId<OrderId>,
    body: Body<ReserveStock>,
) -> Result<HttpResponse, ApiProblem> {
    let database = api.database.clone();
    let reserved =
        api.run(context.deadline, async move {
            workflow::reserve(&database, context.deadline, order.0, &body.0.items).await
        })
        .await?;
    Ok(match reserved {
        Reserved::New(reservation) => HttpResponse::Created().json(reservation),
        Reserved::Again(reservation) => HttpResponse::Ok().json(reservation),
    })
}

#[utoipa::path(
    get, path = "/v1/reservations/{order_id}", tag = "reservations", params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, body = Reservation),
        (status = 404, description = "`not-found`: the order was never seen here"),
    )
)]
pub(super) async fn show(
    api: web::Data<Api>,
    context: RequestContext,
    order: PathId<OrderId>,
) -> Result<HttpResponse, ApiProblem> {
    let database = api.database.clone();
    let reading = async move {
        let mut tx = database.begin(context.deadline).await?;
        reservations::find(&mut tx, order.0).await?.ok_or(Error::NoReservation(order.0))
    };
    Ok(HttpResponse::Ok().json(api.run(context.deadline, reading).await?))
}

#[utoipa::path(
    post, path = "/v1/reservations/{order_id}/commit", tag = "reservations", params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, body = Reservation, description = "Committed; or as it is, after a release"),
        (status = 404, description = "`not-found`: the order was never seen here"),
    )
)]
pub(super) async fn commit(
    api: web::Data<Api>,
    context: RequestContext,
    order: PathId<OrderId>,
) -> Result<HttpResponse, ApiProblem> {
    settle(&api, context, order.0, Command::Commit).await
}

#[utoipa::path(
    post, path = "/v1/reservations/{order_id}/release", tag = "reservations", params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, body = Reservation, description = "Released or returned; an order never seen is refused from now on"),
        (status = 404, description = "`not-found`: the path holds no order id"),
    )
)]
pub(super) async fn release(
    api: web::Data<Api>,
    context: RequestContext,
    order: PathId<OrderId>,
) -> Result<HttpResponse, ApiProblem> {
    settle(&api, context, order.0, Command::Release).await
}

async fn settle(
    api: &Api,
    context: RequestContext,
    order: OrderId,
    command: Command<'static>,
) -> Result<HttpResponse, ApiProblem> {
    let database = api.database.clone();
    let settling = async move { workflow::settle_once(&database, context.deadline, order, command).await };
    Ok(HttpResponse::Ok().json(api.run(context.deadline, settling).await?))
}
