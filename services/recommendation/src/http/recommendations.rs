//! `/v1/recommendations`

use actix_web::{HttpResponse, web};
use chassis::{ApiProblem, RequestContext, extract::Query, problem};
use contracts::{recommendation::Recommendations, validate::Violations};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Api;
use crate::{
    Error,
    workflow::{MAX_LIMIT, Wanted},
};

const DEFAULT_LIMIT: usize = 5;

/// As text, so that a refusal can name the one that is wrong.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Leaves out what this user bought in the last 30 days.
    user_id: Option<String>,
    /// What goes with this product, which itself is never among the answer; without it, what sells at all.
    sku: Option<String>,
    /// 1 to 50, by default 5.
    limit: Option<String>,
}

#[utoipa::path(
    get, path = "/v1/recommendations", tag = "recommendations", params(ListQuery),
    responses(
        (status = 200, body = Recommendations, description = "Best first; from the default list when nothing is known"),
        (status = 400, description = "`invalid-request`, naming `user_id`, `sku`, `limit` or the `query`"),
    )
)]
pub(super) async fn list(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let wanted = read(query.0)?;
    let recommender = api.recommender.clone();
    let recommending = async move { recommender.recommend(&context, &wanted).await };
    let answer = api.lifecycle.run(recommending).await.map_err(|_| problem::internal())?;
    Ok(HttpResponse::Ok().json(answer))
}

fn read(query: ListQuery) -> Result<Wanted, Error> {
    let bad = |field, detail| Error::BadQuery { field, detail };
    let user = query.user_id.map(|text| text.parse().map_err(|_| bad("user_id", "must be a UUID"))).transpose()?;
    if let Some(sku) = &query.sku {
        let mut violations = Violations::default();
        violations.code(sku, "sku");
        violations.finish().map_err(|_| bad("sku", "must be 1 to 64 visible ASCII characters"))?;
    }
    let limit = match query.limit {
        None => DEFAULT_LIMIT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=MAX_LIMIT).contains(limit))
            .ok_or_else(|| bad("limit", "must be 1 to 50"))?,
    };
    Ok(Wanted { user, sku: query.sku, limit })
}
