//! `/v1/faults`: faults on the links, where links run.

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{
    ApiProblem, Downstream, RequestContext,
    extract::{Body, path},
};
use contracts::{
    FieldError,
    validate::{Validate, Violations},
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Api, on_main, operator::Operator, reason::note};
use crate::{
    Error,
    domain::faults::{InForce, Kind, Listed, Shown, check, kinds},
    store::audit::Action,
};

const NO_LINKS: Error = Error::NotFound("no links run in this system: faults can be set where `./dev up` starts them");
const NO_FAULT: &str = "there is no such fault in force";

/// The links, and what can be done to them.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Faults {
    available: bool,
    links: Vec<Link>,
    kinds: Vec<Kind>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Link {
    link: String,
    /// `http` or `tcp`.
    protocol: String,
    faults: Vec<Shown>,
}

/// As the links tell it.
#[derive(Deserialize)]
struct Links {
    items: Vec<OneLink>,
}

#[derive(Deserialize)]
struct OneLink {
    name: String,
    protocol: String,
    faults: Vec<InForce>,
}

/// Every link with the faults in force on it; none where no links run or answer.
#[utoipa::path(get, path = "/v1/faults", tag = "faults", responses((status = 200, body = Faults)))]
pub(super) async fn list(api: web::Data<Api>, context: RequestContext) -> Result<HttpResponse, ApiProblem> {
    let links = api.callees.links.clone();
    let asking = async move {
        let none = Faults { available: false, links: Vec::new(), kinds: kinds() };
        let Some(links) = links else { return Ok(none) };
        let told = match links.get::<Links>(&context, "/v1/links").await {
            Ok(told) => told,
            Err(error) => {
                tracing::info!(%error, "the links give no answer");
                return Ok(none);
            }
        };
        let shown = |link: OneLink| Link {
            link: link.name,
            protocol: link.protocol,
            faults: link.faults.iter().map(InForce::shown).collect(),
        };
        Ok(Faults { available: true, links: told.body.items.into_iter().map(shown).collect(), ..none })
    };
    Ok(HttpResponse::Ok().json(on_main(&api, asking).await?))
}

/// A fault that is wanted.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetFault {
    #[schema(min_length = 1, max_length = 64)]
    link: String,
    #[schema(min_length = 1, max_length = 64)]
    kind: String,
    #[serde(default)]
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
    /// At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Validate for SetFault {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.code(&self.link, "link");
        if let Err(wrong) = check(&self.kind, &self.settings) {
            violations.push(wrong.field, wrong.detail);
        }
        if let Some(reason) = &self.reason {
            super::reason::check(reason, &mut violations);
        }
        violations.finish()
    }
}

/// Sets a fault; it is in force when the answer comes.
#[utoipa::path(
    post, path = "/v1/faults", tag = "faults", request_body = SetFault,
    responses((status = 201, body = Shown), (status = 404, description = "`not-found`: no links run"))
)]
pub(super) async fn set(
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<SetFault>,
) -> Result<HttpResponse, ApiProblem> {
    let links = links(&api)?;
    let setting = {
        let api = Api::clone(&api);
        async move {
            let SetFault { link, kind, settings, reason } = body.0;
            let target = format!("{link}: {kind}");
            let told = serde_json::to_string(&settings).unwrap_or_default();
            let reason = reason.as_deref().map(str::trim).unwrap_or(&told);
            let action = Action { operator: &operator.name, action: "set_fault", target: &target, reason };
            note(&api, context.deadline, action).await?;
            let mut wanted = settings;
            wanted.insert("link".to_owned(), link.into());
            wanted.insert("kind".to_owned(), kind.into());
            let set = links.call::<_, InForce>(&context, Method::POST, "/v1/faults", Some(&wanted), &[]).await;
            set.map(|answer| answer.body.shown()).map_err(of_links)
        }
    };
    Ok(HttpResponse::Created().json(on_main(&api, setting).await?))
}

/// Removes a fault; it is over when the answer comes, for the requests in it too.
#[utoipa::path(
    delete, path = "/v1/faults/{link}/{name}", tag = "faults",
    params(("link" = String, Path, description = "As in `order->payment`, encoded"), ("name" = String, Path)),
    responses(
        (status = 204, description = "Over"),
        (status = 404, description = "`not-found`: no links run, or there is no such fault in force"),
    )
)]
pub(super) async fn remove(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
) -> Result<HttpResponse, ApiProblem> {
    let (link, name): (String, String) = (path(&request, "link")?, path(&request, "name")?);
    let is_meant = move |fault: &InForce| fault.link == link && fault.name() == name;
    remove_those(&api, context, operator, is_meant, true).await
}

/// Removes all of them.
#[utoipa::path(
    delete, path = "/v1/faults", tag = "faults",
    responses((status = 204, description = "Over"), (status = 404, description = "`not-found`: no links run"))
)]
pub(super) async fn remove_all(
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
) -> Result<HttpResponse, ApiProblem> {
    remove_those(&api, context, operator, |_| true, false).await
}

async fn remove_those(
    api: &Api,
    context: RequestContext,
    operator: Operator,
    is_meant: impl Fn(&InForce) -> bool + Send + 'static,
    is_one: bool,
) -> Result<HttpResponse, ApiProblem> {
    let links = links(api)?;
    let removing = {
        let api = api.clone();
        async move {
            let listed = links.get::<Listed>(&context, "/v1/faults").await.map_err(of_links)?;
            let meant: Vec<_> = listed.body.items.into_iter().filter(|fault| is_meant(fault)).collect();
            if is_one && meant.is_empty() {
                return Err(Error::NotFound(NO_FAULT));
            }
            for fault in meant {
                let target = format!("{}: {}", fault.link, fault.name());
                let action = Action {
                    operator: &operator.name,
                    action: "remove_fault",
                    target: &target,
                    reason: "no longer wanted",
                };
                note(&api, context.deadline, action).await?;
                take_off(&links, &context, fault.id).await?;
            }
            Ok(())
        }
    };
    on_main(api, removing).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// One that is over by itself meanwhile is off, which is what was wanted.
async fn take_off(links: &Downstream, context: &RequestContext, id: u64) -> Result<(), Error> {
    let path = format!("/v1/faults/{id}");
    match links.call::<(), Value>(context, Method::DELETE, &path, None, &[]).await {
        Err(chassis::CallError::Refused(problem)) if problem.status == 404 => Ok(()),
        removed => removed.map(drop).map_err(of_links),
    }
}

fn links(api: &Api) -> Result<Downstream, Error> {
    api.callees.links.clone().ok_or(NO_LINKS)
}

fn of_links(error: chassis::CallError) -> Error {
    Error::Callee { callee: "links", error }
}
