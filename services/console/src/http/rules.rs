//! `/v1/rules`

use actix_web::{HttpResponse, web};
use chassis::{ApiProblem, RequestContext, extract::Query};
use contracts::ruling::Versions;

use super::{Api, PageQuery, answer};
use crate::store::versions;

/// The history of versions, newest first.
#[utoipa::path(
    get, path = "/v1/rules", tag = "rules", params(PageQuery),
    responses(
        (status = 200, body = Versions),
        (status = 400, description = "`invalid-request`, naming `limit`, `cursor` or the `query`"),
    )
)]
pub(super) async fn list(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<PageQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let (limit, below) = query.0.read()?;
    let database = api.database.clone();
    answer(&api, async move {
        let mut tx = database.begin(context.deadline).await?;
        versions::page(&mut tx, limit, below).await
    })
    .await
}
