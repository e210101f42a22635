//! `/v1/switches`

use actix_web::{HttpResponse, web};
use chassis::{ApiProblem, RequestContext, extract::Body};
use contracts::ruling::{Switches, TurnSwitch, VersionWithDocument};

use super::{Api, answer, operator::Operator};

/// Where each feature stands.
#[utoipa::path(
    get, path = "/v1/switches", tag = "switches",
    responses(
        (status = 200, body = Switches),
        (status = 422, description = "`validation-failed`: this release cannot read the version in force"),
    )
)]
pub(super) async fn list(api: web::Data<Api>) -> Result<HttpResponse, ApiProblem> {
    Ok(HttpResponse::Ok().json(api.rulebook.switches()?))
}

/// Turns one, at once and everywhere: a version in which that line alone differs. What is tried out at the time is
/// rolled back.
#[utoipa::path(
    post, path = "/v1/switches", tag = "switches", request_body = TurnSwitch,
    responses(
        (status = 200, body = VersionWithDocument, description = "The version that is in force now"),
        (status = 409, description = "`version-conflict`: services run on rules that the console does not know"),
    )
)]
pub(super) async fn turn(
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<TurnSwitch>,
) -> Result<HttpResponse, ApiProblem> {
    let rulebook = api.rulebook.clone();
    answer(&api, async move { rulebook.turn_switch(&operator.name, &body.0, context.deadline).await }).await
}
