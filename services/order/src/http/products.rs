//! `/v1/products`: the shop window. Price and availability come from inventory or as it last said, suggestions from
//! recommendation.

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{ApiProblem, RequestContext, auth::User, extract::Query};
use contracts::{
    UserId,
    inventory::StockLevel,
    order::{Availability, Page, Product, Suggestion},
};
use resilience::degrade::Served;
use rules::Degrade;
use serde::Deserialize;

use super::{Api, limit};
use crate::{
    downstream::{products::Seen, recommendation::percent_encoded},
    error::Error,
};

/// One product.
#[utoipa::path(
    get, path = "/v1/products/{sku}", tag = "products", security(("user" = [])),
    params(("sku" = String, Path)),
    responses(
        (status = 200, description = "The product", body = Product),
        (status = 400, description = "Malformed header", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such product", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "Inventory is unavailable, and nothing is known from earlier", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get(
    request: HttpRequest,
    context: RequestContext,
    user: User,
    api: web::Data<Api>,
) -> Result<HttpResponse, ApiProblem> {
    let sku: String = chassis::extract::path(&request, "sku")?;
    let (lifecycle, api) = (api.lifecycle.clone(), Api::clone(&api));
    let work = async move { product(&api, &context, user.id, &sku).await };
    let product = lifecycle.run(work).await.map_err(Error::from)??;
    Ok(HttpResponse::Ok().json(product))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

/// Products by SKU.
#[utoipa::path(
    get, path = "/v1/products", tag = "products", security(("user" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = Page<Product>),
        (status = 400, description = "A bad limit or cursor", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "Inventory is unavailable, and nothing is known from earlier", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 504, description = "Out of time", body = contracts::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list(
    context: RequestContext,
    _user: User,
    api: web::Data<Api>,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let limit = limit(query.0.limit)?;
    let cursor = query.0.cursor.map(|cursor| format!("&cursor={}", percent_encoded(&cursor))).unwrap_or_default();
    let products = api.products.clone();
    let work = async move { products.page(&context, &format!("?limit={limit}{cursor}")).await };
    let page = api.lifecycle.run(work).await.map_err(Error::from)??;
    let Seen { value, as_of, stale } = page;
    let of_page = |level| shown(Seen { value: level, as_of, stale }, None);
    let items = value.items.into_iter().map(of_page).collect();
    Ok(HttpResponse::Ok().json(Page::<Product> { items, next_cursor: value.next_cursor }))
}

async fn product(api: &Api, context: &RequestContext, user: UserId, sku: &str) -> Result<Product, Error> {
    // Side by side: suggestions cost the page no time beyond their own limit.
    let (seen, suggestions) =
        tokio::join!(api.products.one(context, sku), api.workflow.recommendation.suggest(context, user, sku));
    Ok(shown(seen?, Some(suggestions)))
}

/// A list shows no suggestions.
fn shown(seen: Seen<StockLevel>, suggestions: Option<Served<Vec<Suggestion>>>) -> Product {
    let Seen { value: level, as_of, stale } = seen;
    let mut degraded = Vec::new();
    if stale {
        degraded.push(Degrade::AVAILABILITY.name.to_owned());
    }
    degraded.extend(suggestions.as_ref().and_then(|served| served.degraded).map(str::to_owned));
    Product {
        sku: level.sku,
        name: level.name,
        unit_price_minor: level.unit_price_minor,
        currency: level.currency,
        availability: Availability { available: level.available, as_of, stale },
        recommendations: suggestions.map(|served| served.value).unwrap_or_default(),
        degraded,
    }
}
