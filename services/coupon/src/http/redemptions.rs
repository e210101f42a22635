//! `/v1/redemptions/{order_id}`: the coupon that an order redeems.

use actix_web::{HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Body, PathId},
};
use contracts::{
    OrderId,
    coupon::{RedeemCoupon, Redemption},
};

use super::Api;
use crate::{
    Error,
    domain::Command,
    store::redemptions,
    workflow::{self, Redeemed},
};

#[utoipa::path(
    put, path = "/v1/redemptions/{order_id}", tag = "redemptions",
    params(("order_id" = OrderId, Path)), request_body = RedeemCoupon,
    responses(
        (status = 201, body = Redemption, description = "The coupon is held, with its discount"),
        (status = 200, body = Redemption, description = "It was held before"),
        (status = 404, description = "`not-found`: the path holds no order id"),
        (status = 409, description = "`coupon-expired` (or not valid yet), `coupon-exhausted`, `coupon-already-used`; \
                                      `reservation-released`: the order let go before"),
        (status = 422, description = "`coupon-unknown`; `content-mismatch`; `validation-failed`, also for a fixed \
                                      amount in another currency"),
    )
)]
pub(super) async fn redeem(
    api: web::Data<Api>,
    context: RequestContext,
    order: PathId<OrderId>,
    body: Body<RedeemCoupon>,
) -> Result<HttpResponse, ApiProblem> {
    let database = api.database.clone();
    let redeeming = async move { workflow::redeem(&database, context.deadline, order.0, &body.0).await };
    Ok(match api.run(context.deadline, redeeming).await? {
        Redeemed::New(redemption) => HttpResponse::Created().json(redemption),
        Redeemed::Again(redemption) => HttpResponse::Ok().json(redemption),
    })
}

#[utoipa::path(
    get, path = "/v1/redemptions/{order_id}", tag = "redemptions", params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, body = Redemption),
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
        let record = redemptions::find(&mut tx, order.0).await?.ok_or(Error::NoRedemption(order.0))?;
        Ok(workflow::shown(order.0, &record))
    };
    Ok(HttpResponse::Ok().json(api.run(context.deadline, reading).await?))
}

#[utoipa::path(
    post, path = "/v1/redemptions/{order_id}/commit", tag = "redemptions", params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, body = Redemption, description = "Committed; or as it is, after a release"),
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
    post, path = "/v1/redemptions/{order_id}/release", tag = "redemptions", params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, body = Redemption, description = "Released or returned; an order never seen is refused from now on"),
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
