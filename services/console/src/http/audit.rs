//! `/v1/audit`

use actix_web::{HttpResponse, web};
use chassis::{ApiProblem, RequestContext, extract::Query};
use contracts::ruling::Audit;

use super::{Api, PageQuery, answer};
use crate::store::audit;

/// What operators did, newest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", params(PageQuery),
    responses(
        (status = 200, body = Audit),
        (status = 400, description = "`invalid-request`, naming `limit`, `cursor` or the `query`"),
    )
)]
pub(super) async fn list(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<PageQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let (limit, below) = query.0.read()?;
    let database = api.rulebook.database.clone();
    answer(&api, async move {
        let mut tx = database.begin(context.deadline).await?;
        audit::page(&mut tx, limit, below).await
    })
    .await
}
