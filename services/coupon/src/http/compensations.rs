//! `/v1/operator/compensations`: the discounts that a person has to decide about, for the console alone.

use actix_web::{HttpResponse, web};
use chassis::{ApiProblem, RequestContext, extract::Query};
use contracts::{OrderId, coupon::ManualCompensation, order::Page};
use serde::Deserialize;

use super::Api;
use crate::{Error, store::compensations};

/// Items of one page unless asked otherwise, and at most.
const DEFAULT_LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

#[utoipa::path(
    get, path = "/v1/operator/compensations", tag = "operator",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, body = Page<ManualCompensation>),
        (status = 403, description = "`forbidden`: not the console")
    )
)]
pub(super) async fn list(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let limit = match query.0.limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => limit,
        _ => return Err(Error::BadParameter("limit", "must be 1 to 100").into()),
    };
    let after = match query.0.cursor {
        None => None,
        Some(text) => Some(text.parse::<OrderId>().map_err(|_| Error::BadParameter("cursor", "is none of ours"))?),
    };
    let database = api.database.clone();
    let reading = async move {
        let mut tx = database.begin(context.deadline).await?;
        // One more than asked for, to know whether there is a next page.
        compensations::manual(&mut tx, after, limit + 1).await
    };
    let mut items = api.run(context.deadline, reading).await?;
    let more = i64::try_from(items.len()).is_ok_and(|read| read > limit);
    if more {
        items.pop();
    }
    let next_cursor = items.last().filter(|_| more).map(|last| last.order_id.to_string());
    Ok(HttpResponse::Ok().json(Page { items, next_cursor }))
}
