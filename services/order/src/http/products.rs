//! `/v1/products`: the shop window. Price and availability come from inventory, suggestions from recommendation.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{ApiProblem, CallError, RequestContext, auth::User, extract::Query};
use chrono::Utc;
use contracts::{
    ProblemType, UserId,
    inventory::StockLevel,
    order::{Availability, Page, Product, Suggestion},
};
use serde::Deserialize;

use super::{Api, limit};
use crate::{downstream::recommendation::percent_encoded, error::Error, workflow::Workflow};

/// One product.
#[utoipa::path(
    get, path = "/v1/products/{sku}", tag = "products", security(("user" = [])),
    params(("sku" = String, Path)),
    responses(
        (status = 200, description = "The product", body = Product),
        (status = 400, description = "Malformed header", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such product", body = contracts::Problem, content_type = "application/problem+json"),
        (status = 503, description = "Inventory is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
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
    let workflow = api.workflow.clone();
    let work = async move { product(&workflow, &context, user.id, &sku).await };
    let product = api.lifecycle.run(work).await.map_err(Error::from)??;
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
        (status = 503, description = "Inventory is unavailable", body = contracts::Problem, content_type = "application/problem+json"),
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
    let workflow = api.workflow.clone();
    let work = async move {
        let query = format!("?limit={limit}{cursor}");
        workflow.inventory.products(&context, &query).await.map_err(|error| match error {
            CallError::Refused(problem) if problem.kind == ProblemType::InvalidRequest => {
                Error::BadParameter("cursor", "is none of ours")
            }
            _ => Error::InventoryUnavailable,
        })
    };
    let page = api.lifecycle.run(work).await.map_err(Error::from)??;
    let items = page.items.into_iter().map(|level| shown(level, Some(Vec::new()))).collect();
    Ok(HttpResponse::Ok().json(Page::<Product> { items, next_cursor: page.next_cursor }))
}

async fn product(
    workflow: &Arc<Workflow>,
    context: &RequestContext,
    user: UserId,
    sku: &str,
) -> Result<Product, Error> {
    let encoded = percent_encoded(sku);
    // Side by side: suggestions cost the page no time beyond their own limit.
    let (level, suggestions) = tokio::join!(
        workflow.inventory.product(context, &encoded),
        workflow.recommendation.suggest(context, user, sku)
    );
    let level = level.map_err(|error| match error {
        CallError::Refused(problem) if problem.kind == ProblemType::NotFound => Error::ProductNotFound,
        _ => Error::InventoryUnavailable,
    })?;
    Ok(shown(level, suggestions.ok()))
}

fn shown(level: StockLevel, suggestions: Option<Vec<Suggestion>>) -> Product {
    let mut degraded = Vec::new();
    if suggestions.is_none() {
        metrics::counter!("stability_degrade_hit_total", "feature" => "recommendation").increment(1);
        degraded.push("recommendation".to_owned());
    }
    Product {
        sku: level.sku,
        name: level.name,
        unit_price_minor: level.unit_price_minor,
        currency: level.currency,
        availability: Availability { available: level.available, as_of: Utc::now(), stale: false },
        recommendations: suggestions.unwrap_or_default(),
        degraded,
    }
}
