//! `/v1/rules`, for operators.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Body, Query, path},
    problem,
};
use contracts::ruling::{
    Because, Difference, Instances, PublishRules, StartCanary, ValidateRules, Validity, VersionWithDocument, Versions,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{Api, PageQuery, answer, operator::Operator};
use crate::{Error, domain::Act, store::versions, workflow::validity};

pub(super) fn routes(config: &mut web::ServiceConfig) {
    let post = || problem::only("POST");
    config
        .service(web::resource("/rules").get(list).post(publish).default_service(problem::only("GET, POST")))
        .service(web::resource("/rules/validate").post(validate).default_service(post()))
        .service(web::resource("/rules/instances").get(instances).default_service(problem::only("GET")))
        .service(web::resource("/rules/{version}").get(one).default_service(problem::only("GET")))
        .service(web::resource("/rules/{version}/diff").get(diff).default_service(problem::only("GET")))
        .service(web::resource("/rules/{version}/canary").post(canary).default_service(post()))
        .service(web::resource("/rules/{version}/promote").post(promote).default_service(post()))
        .service(web::resource("/rules/{version}/rollback").post(rollback).default_service(post()));
}

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
    let database = api.rulebook.database.clone();
    answer(&api, async move {
        let mut tx = database.begin(context.deadline).await?;
        versions::page(&mut tx, limit, below).await
    })
    .await
}

/// One version with its document.
#[utoipa::path(
    get, path = "/v1/rules/{version}", tag = "rules", params(("version" = i64, Path)),
    responses((status = 200, body = VersionWithDocument), (status = 404, description = "`not-found`"))
)]
pub(super) async fn one(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
) -> Result<HttpResponse, ApiProblem> {
    let version = path(&request, "version")?;
    let database = api.rulebook.database.clone();
    answer(&api, async move {
        let mut tx = database.begin(context.deadline).await?;
        versions::find(&mut tx, version).await
    })
    .await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DiffQuery {
    /// A version, or 0 for the built-in defaults; by default the version in force.
    against: Option<String>,
}

/// What a version says otherwise than another one, with what their documents leave out filled in.
#[utoipa::path(
    get, path = "/v1/rules/{version}/diff", tag = "rules", params(("version" = i64, Path), DiffQuery),
    responses(
        (status = 200, body = Difference),
        (status = 400, description = "`invalid-request`, naming `against` or the `query`"),
        (status = 404, description = "`not-found`"),
        (status = 422, description = "`validation-failed`: this release cannot read one of the two"),
    )
)]
pub(super) async fn diff(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<DiffQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let version = path(&request, "version")?;
    let bad = Error::BadQuery { field: "against", detail: "must be a version" };
    let against = match query.0.against {
        None => None,
        Some(text) => Some(text.parse().ok().filter(|number| *number >= 0).ok_or(bad)?),
    };
    let rulebook = api.rulebook.clone();
    answer(&api, async move { rulebook.difference(version, against, context.deadline).await }).await
}

/// Everything that is wrong with a document.
#[utoipa::path(
    post, path = "/v1/rules/validate", tag = "rules", request_body = ValidateRules,
    responses((status = 200, body = Validity))
)]
pub(super) async fn validate(body: Body<ValidateRules>) -> HttpResponse {
    HttpResponse::Ok().json(validity(&body.0.document))
}

/// A new version, in force nowhere yet.
#[utoipa::path(
    post, path = "/v1/rules", tag = "rules", request_body = PublishRules,
    responses(
        (status = 201, body = VersionWithDocument, description = "A draft; `Location` is its address"),
        (status = 409, description = "`version-conflict`: `based_on` is not the newest version"),
    )
)]
pub(super) async fn publish(
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<PublishRules>,
) -> Result<HttpResponse, ApiProblem> {
    let rulebook = api.rulebook.clone();
    let work = async move { rulebook.publish(&operator.name, &body.0, context.deadline).await };
    let draft = api.lifecycle.run(work).await.map_err(|_| problem::internal())??;
    let address = format!("/v1/rules/{}", draft.item.version);
    Ok(HttpResponse::Created().insert_header((header::LOCATION, address)).json(draft))
}

/// Tries a version out on the instances that are named, and on no other.
#[utoipa::path(
    post, path = "/v1/rules/{version}/canary", tag = "rules", params(("version" = i64, Path)),
    request_body = StartCanary,
    responses(
        (status = 200, body = VersionWithDocument),
        (status = 404, description = "`not-found`"),
        (status = 409, description = "`version-conflict`: it is no draft, or another one is tried out or newer"),
    )
)]
pub(super) async fn canary(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<StartCanary>,
) -> Result<HttpResponse, ApiProblem> {
    let StartCanary { instances, reason } = body.0;
    act(&request, &api, context, operator, Act::Canary(instances), reason).await
}

/// Puts a version in force everywhere.
#[utoipa::path(
    post, path = "/v1/rules/{version}/promote", tag = "rules", params(("version" = i64, Path)), request_body = Because,
    responses(
        (status = 200, body = VersionWithDocument),
        (status = 404, description = "`not-found`"),
        (status = 409, description = "`version-conflict`: it is no draft or canary, or another one is tried out or newer"),
    )
)]
pub(super) async fn promote(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<Because>,
) -> Result<HttpResponse, ApiProblem> {
    act(&request, &api, context, operator, Act::Promote, body.0.reason).await
}

/// Takes back a version that is in force or tried out. The one before it is in force again.
#[utoipa::path(
    post, path = "/v1/rules/{version}/rollback", tag = "rules", params(("version" = i64, Path)), request_body = Because,
    responses(
        (status = 200, body = VersionWithDocument),
        (status = 404, description = "`not-found`"),
        (status = 409, description = "`version-conflict`: it is in force nowhere"),
    )
)]
pub(super) async fn rollback(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<Because>,
) -> Result<HttpResponse, ApiProblem> {
    act(&request, &api, context, operator, Act::Rollback, body.0.reason).await
}

async fn act(
    request: &HttpRequest,
    api: &Api,
    context: RequestContext,
    operator: Operator,
    act: Act,
    reason: String,
) -> Result<HttpResponse, ApiProblem> {
    let version = path(request, "version")?;
    let rulebook = api.rulebook.clone();
    answer(api, async move { rulebook.act(&operator.name, version, &act, &reason, context.deadline).await }).await
}

/// What each instance runs on, and what it should run on.
#[utoipa::path(
    get, path = "/v1/rules/instances", tag = "rules",
    responses((status = 200, body = Instances))
)]
pub(super) async fn instances(api: web::Data<Api>, context: RequestContext) -> Result<HttpResponse, ApiProblem> {
    let rulebook = api.rulebook.clone();
    answer(&api, async move { rulebook.instances(context.deadline).await }).await
}
