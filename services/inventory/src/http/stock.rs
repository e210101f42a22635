//! `/v1/stock`: what there is of each product. Order reads its public catalogue from here.

use actix_web::{HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Body, PathId, Query},
};
use contracts::{
    inventory::{Restock, StockLevel},
    order::Page,
    validate::Code,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Api;
use crate::{Error, store::stock, workflow};

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 200;

/// As text, so that a refusal can name the one that is wrong.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// 1 to 200, by default 50.
    limit: Option<String>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

#[utoipa::path(
    get, path = "/v1/stock", tag = "stock", params(ListQuery),
    responses(
        (status = 200, body = Page<StockLevel>, description = "Products in the order of their SKUs"),
        (status = 400, description = "`invalid-request`, naming `limit` or `cursor`"),
    )
)]
pub(super) async fn list(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let limit = read_limit(query.0.limit.as_deref())?;
    let after = query.0.cursor.as_deref().map(read_cursor).transpose()?;
    let database = api.database.clone();
    let reading = async move {
        let mut tx = database.begin(context.deadline).await?;
        // One more than asked for tells whether there is another page.
        stock::page(&mut tx, after.as_ref(), limit + 1).await
    };
    let mut items = api.run(context.deadline, reading).await?;
    let more = usize::try_from(limit).is_ok_and(|limit| items.len() > limit);
    if more {
        items.pop();
    }
    let next_cursor = items.last().filter(|_| more).map(|last| hex::encode(&last.sku));
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}

#[utoipa::path(
    get, path = "/v1/stock/{sku}", tag = "stock", params(("sku" = String, Path)),
    responses((status = 200, body = StockLevel), (status = 404, description = "`not-found`: there is no such product"))
)]
pub(super) async fn show(
    api: web::Data<Api>,
    context: RequestContext,
    sku: PathId<Code>,
) -> Result<HttpResponse, ApiProblem> {
    let database = api.database.clone();
    let reading = async move {
        let mut tx = database.begin(context.deadline).await?;
        stock::level(&mut tx, &sku.0).await?.ok_or_else(|| Error::NoProduct(sku.0.as_str().to_owned()))
    };
    Ok(HttpResponse::Ok().json(api.run(context.deadline, reading).await?))
}

#[utoipa::path(
    post, path = "/v1/stock/{sku}/restock", tag = "stock", params(("sku" = String, Path)), request_body = Restock,
    responses(
        (status = 200, body = StockLevel, description = "The level with these goods, which count once for a reference"),
        (status = 404, description = "`not-found`: there is no such product"),
        (status = 422, description = "`content-mismatch`: the reference names another delivery; `validation-failed`"),
    )
)]
pub(super) async fn restock(
    api: web::Data<Api>,
    context: RequestContext,
    sku: PathId<Code>,
    body: Body<Restock>,
) -> Result<HttpResponse, ApiProblem> {
    let database = api.database.clone();
    let restocking = async move { workflow::restock(&database, context.deadline, &sku.0, &body.0).await };
    Ok(HttpResponse::Ok().json(api.run(context.deadline, restocking).await?))
}

fn read_limit(text: Option<&str>) -> Result<i64, Error> {
    let Some(text) = text else { return Ok(DEFAULT_LIMIT) };
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or(Error::BadQuery { field: "limit", detail: "must be 1 to 200" })
}

/// The last SKU of the page before, in a form that nobody is tempted to compose.
fn read_cursor(text: &str) -> Result<Code, Error> {
    let sku = hex::decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|sku| sku.parse().ok());
    sku.ok_or(Error::BadQuery { field: "cursor", detail: "is no cursor of this list" })
}
