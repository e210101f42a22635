//! `/v1/orders`

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use chassis::{
    ApiProblem, RequestContext,
    auth::User,
    extract::{Body, PathId, Query},
    guards::Place,
};
use contracts::{
    OrderId, headers,
    headers::IdempotencyKey,
    order::{HistoryEntry, Order, Page, PlaceOrder},
};
use durable::within;
use resilience::Deadline;
use serde::Deserialize;

use super::{
    Api, admission, limit,
    page::{before, page},
    render::resource,
};
use crate::{
    domain,
    error::Error,
    store,
    workflow::{Answer, Workflow},
};

/// What a client waits before it asks again for an order whose payment is pending.
pub(super) const PENDING_RETRY_AFTER_SECONDS: u64 = 1;

/// Place an order.
#[utoipa::path(
    post, path = "/v1/orders", tag = "orders", request_body = PlaceOrder, security(("user" = [])),
    params(("Idempotency-Key" = String, Header, description = "1 to 255 visible ASCII characters, bare or quoted")),
    responses(
        (status = 201, description = "Confirmed", body = Order),
        (status = 202, description = "The payment's outcome is not known yet", body = Order),
        (status = 400, description = "Unreadable, or without a key", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 402, description = "Declined", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 409, description = "Out of stock, coupon refused, or the key is in use", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not JSON", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 422, description = "Out of range, unknown product or coupon, or the key was used for another request", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "A part of the core path is unavailable, or only listed users are let in; nothing was charged", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time before the charge; nothing was charged", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn place(
    request: HttpRequest,
    context: RequestContext,
    user: User,
    api: web::Data<Api>,
    body: Body<PlaceOrder>,
) -> Result<HttpResponse, ApiProblem> {
    admission::admit(&api, &context, user.id)?;
    let key = idempotency_key(&request)?;
    let workflow = api.workflow.clone();
    let work = async move { workflow.place_order(&context, &user, &key, &body.0).await };
    // The client may hang up; the work goes on.
    let answer = api.lifecycle.run(work).await.map_err(Error::from)??;
    Ok(answered(answer))
}

/// One order, after a change if the client asks to wait for one.
#[utoipa::path(
    get, path = "/v1/orders/{order_id}", tag = "orders", security(("user" = [])),
    params(
        ("order_id" = OrderId, Path),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: answer when the order changes, or after N seconds"),
    ),
    responses(
        (status = 200, description = "The order", body = Order),
        (status = 400, description = "Malformed header", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 404, description = "You have no such order", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    request: HttpRequest,
    context: RequestContext,
    user: User,
    place: Place,
    api: web::Data<Api>,
    id: PathId<OrderId>,
) -> Result<HttpResponse, ApiProblem> {
    let workflow = api.workflow.clone();
    let patience = wait_preference(&request);
    let work = async move {
        let order = own(&workflow, &user, id.0, context.deadline).await?;
        let Some(patience) = patience.filter(|_| !order.status.is_final()) else { return Ok(order) };
        // Where as many wait as may, the order as it is now is an answer too.
        let Some(_waiting) = place.wait() else { return Ok(order) };
        // What the caller still waits, less what the answer needs to get there.
        let budget = context.deadline.child(patience, workflow.rules.current().network.reserve).unwrap_or_default();
        workflow.wait_for_change(order, Deadline::after(budget), context.deadline).await
    };
    let order = api.lifecycle.run(work).await.map_err(Error::from)??;
    Ok(HttpResponse::Ok().json(resource(order)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

/// The caller's orders, newest first.
#[utoipa::path(
    get, path = "/v1/orders", tag = "orders", security(("user" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = Page<Order>),
        (status = 400, description = "A bad limit or cursor", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list(
    context: RequestContext,
    user: User,
    api: web::Data<Api>,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let limit = limit(query.0.limit)?;
    let before = before(query.0.cursor)?;
    let workflow = api.workflow.clone();
    let work = async move {
        let reading = store::orders::page(workflow.database.pool(), user.id, before, limit + 1);
        within(context.deadline, async { Ok::<_, Error>(reading.await?) }).await
    };
    let orders = api.lifecycle.run(work).await.map_err(Error::from)??;
    Ok(HttpResponse::Ok().json(page(orders, limit, resource)))
}

/// What happened to an order, oldest first.
#[utoipa::path(
    get, path = "/v1/orders/{order_id}/history", tag = "orders", security(("user" = [])),
    params(("order_id" = OrderId, Path)),
    responses(
        (status = 200, description = "Its transitions", body = Vec<HistoryEntry>),
        (status = 400, description = "Malformed header", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 404, description = "You have no such order", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn history(
    context: RequestContext,
    user: User,
    api: web::Data<Api>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiProblem> {
    let id: OrderId = chassis::extract::path(&request, "order_id")?;
    let workflow = api.workflow.clone();
    let work = async move {
        own(&workflow, &user, id, context.deadline).await?;
        let reading = async { Ok::<_, Error>(store::history::of(workflow.database.pool(), id).await?) };
        within(context.deadline, reading).await
    };
    let entries = api.lifecycle.run(work).await.map_err(Error::from)??;
    Ok(HttpResponse::Ok().json(entries))
}

/// Another user's order is as good as none.
pub(super) async fn own(
    workflow: &Workflow,
    user: &User,
    id: OrderId,
    deadline: Deadline,
) -> Result<domain::Order, Error> {
    let order = workflow.find(id, deadline).await?;
    if order.user_id == user.id { Ok(order) } else { Err(Error::OrderNotFound) }
}

fn idempotency_key(request: &HttpRequest) -> Result<IdempotencyKey, Error> {
    let mut values = request.headers().get_all(headers::IDEMPOTENCY_KEY);
    let value = values.next().ok_or(Error::KeyMissing)?;
    if values.next().is_some() {
        return Err(Error::KeyMalformed);
    }
    let text = value.to_str().map_err(|_| Error::KeyMalformed)?;
    IdempotencyKey::parse(text).map_err(|_| Error::KeyMalformed)
}

/// `wait=N` of a `Prefer` header (RFC 7240). A preference that cannot be read is one that is not honoured.
fn wait_preference(request: &HttpRequest) -> Option<Duration> {
    let text = request.headers().get("prefer")?.to_str().ok()?;
    let seconds = text.split([',', ';']).find_map(|part| part.trim().strip_prefix("wait="))?;
    seconds.trim_matches('"').parse().ok().map(Duration::from_secs)
}

fn answered(answer: Answer) -> HttpResponse {
    let mut response = match answer.outcome {
        Ok(order) => {
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::ACCEPTED);
            let mut response = HttpResponse::build(status);
            response.insert_header((header::LOCATION, format!("/v1/orders/{}", order.id)));
            if status == StatusCode::ACCEPTED && !order.status.is_final() {
                response.insert_header((header::RETRY_AFTER, PENDING_RETRY_AFTER_SECONDS));
            }
            response.json(resource(order))
        }
        Err(problem) => chassis::problem::respond(&problem),
    };
    if answer.replayed {
        response.headers_mut().insert(
            header::HeaderName::from_static(headers::IDEMPOTENT_REPLAYED),
            header::HeaderValue::from_static("true"),
        );
    }
    response
}
