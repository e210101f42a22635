//! `/v1/operator/orders`: any user's orders, for the console alone.

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{PathId, Query},
};
use contracts::{
    OrderId, UserId,
    order::{HistoryEntry, OperatorOrder, OrderStatus, Page},
};
use durable::within;
use resilience::Deadline;
use serde::Deserialize;

use super::{
    Api, limit,
    page::{before, page},
    render::resource,
};
use crate::{
    domain::Order,
    error::Error,
    store::{self, orders::Wanted},
    workflow::Workflow,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    status: Option<OrderStatus>,
    user_id: Option<UserId>,
    limit: Option<i64>,
    cursor: Option<String>,
}

/// Everybody's orders, newest first.
#[utoipa::path(
    get, path = "/v1/operator/orders", tag = "operator", security(("console" = [])),
    params(
        ("status" = Option<OrderStatus>, Query, description = "Those that stand there"),
        ("user_id" = Option<UserId>, Query, description = "Those of this user"),
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = Page<OperatorOrder>),
        (status = 400, description = "A bad query", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not the console", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list(
    context: RequestContext,
    api: web::Data<Api>,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let ListQuery { status, user_id, limit: asked, cursor } = query.0;
    let limit = limit(asked)?;
    let before = before(cursor)?;
    let workflow = api.workflow.clone();
    let work = async move {
        let wanted = Wanted { user: user_id, status, before };
        let reading = store::orders::any(workflow.database.pool(), wanted, limit + 1);
        within(context.deadline, async { Ok::<_, Error>(reading.await?) }).await
    };
    let orders = api.lifecycle.run(work).await.map_err(Error::from)??;
    Ok(HttpResponse::Ok().json(page(orders, limit, shown)))
}

/// Any order.
#[utoipa::path(
    get, path = "/v1/operator/orders/{order_id}", tag = "operator", security(("console" = [])),
    params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, description = "The order", body = OperatorOrder),
        (status = 400, description = "Malformed header", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not the console", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such order", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    context: RequestContext,
    api: web::Data<Api>,
    id: PathId<OrderId>,
) -> Result<HttpResponse, ApiProblem> {
    let workflow = api.workflow.clone();
    let work = async move { find(&workflow, id.0, context.deadline).await };
    let order = api.lifecycle.run(work).await.map_err(Error::from)??;
    Ok(HttpResponse::Ok().json(shown(order)))
}

/// What happened to any order, oldest first.
#[utoipa::path(
    get, path = "/v1/operator/orders/{order_id}/history", tag = "operator", security(("console" = [])),
    params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, description = "Its transitions", body = Vec<HistoryEntry>),
        (status = 400, description = "Malformed header", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not the console", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such order", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn history(
    context: RequestContext,
    api: web::Data<Api>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiProblem> {
    let id: OrderId = chassis::extract::path(&request, "order_id")?;
    let workflow = api.workflow.clone();
    let work = async move {
        find(&workflow, id, context.deadline).await?;
        let reading = async { Ok::<_, Error>(store::history::of(workflow.database.pool(), id).await?) };
        within(context.deadline, reading).await
    };
    let entries = api.lifecycle.run(work).await.map_err(Error::from)??;
    Ok(HttpResponse::Ok().json(entries))
}

async fn find(workflow: &Workflow, id: OrderId, deadline: Deadline) -> Result<Order, Error> {
    workflow.find(id, deadline).await.map_err(|error| match error {
        Error::OrderNotFound => Error::NoSuchOrder,
        other => other,
    })
}

fn shown(order: Order) -> OperatorOrder {
    OperatorOrder { user_id: order.user_id, tenant: order.tenant.clone(), order: resource(order) }
}
