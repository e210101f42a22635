//! `/v1/session`: the way in and out.

use std::time::Duration;

use actix_web::{HttpMessage, HttpRequest, HttpResponse, http::header, web};
use chassis::{ApiProblem, RequestContext, extract::Body};
use chrono::{DateTime, Utc};
use contracts::{
    FieldError,
    validate::{Validate, Violations},
};
use resilience::rate_limit::Tier;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    operator::{COOKIE, Current, Operator, session_of},
};
use crate::{Error, domain::session::SessionId, store::sessions};

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    #[schema(min_length = 1, max_length = 256)]
    password: String,
}

impl Validate for Login {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        violations.require((1..=64).contains(&self.name.chars().count()), "name", "must have 1 to 64 characters");
        let length = self.password.chars().count();
        violations.require((1..=256).contains(&length), "password", "must have 1 to 256 characters");
        violations.finish()
    }
}

/// Who is in, and what the page has to show with whatever it does.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionView {
    operator: String,
    csrf: String,
    expires_at: DateTime<Utc>,
}

/// Gets an operator in. The session is a cookie that no script can read.
#[utoipa::path(
    post, path = "/v1/session", tag = "session", request_body = Login, security(()),
    responses(
        (status = 200, description = "In; `set-cookie` holds the session.", body = SessionView),
        (status = 401, description = "`unauthenticated`: the name or the password is wrong"),
        (status = 403, description = "`forbidden`: the request comes from another page"),
    )
)]
pub(super) async fn begin(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    body: Body<Login>,
) -> Result<HttpResponse, ApiProblem> {
    let Login { name, password } = body.0;
    if let Err(limited) = api.attempts.check(&name, Tier::DEFAULT) {
        metrics::counter!("console_logins_total", "outcome" => "limited").increment(1);
        return Err(Error::TooManyAttempts(limited.retry_after).into());
    }
    let Some(operator) = api.operators.find(&name, &password).map(str::to_owned) else {
        metrics::counter!("console_logins_total", "outcome" => "refused").increment(1);
        // Without the name: people type their password there.
        tracing::warn!("somebody was not let in: the name or the password was wrong");
        return Err(Error::WrongPassword.into());
    };
    let (id, before) = (SessionId::generate(), session_of(request.headers()));
    let (database, hash, deadline) = (api.rulebook.database.clone(), id.hash(), context.deadline);
    let beginning = async move {
        let mut tx = database.begin(deadline).await?;
        if let Some(before) = before {
            sessions::end(&mut tx, &before.hash()).await?;
        }
        let session = sessions::begin(&mut tx, &hash, &operator).await?;
        tx.commit().await?;
        Ok::<_, Error>(session)
    };
    let session = super::on_main(&api, durable::within(deadline, beginning)).await?;
    metrics::counter!("console_logins_total", "outcome" => "in").increment(1);
    tracing::info!(operator = session.operator, "an operator is in");
    let view = SessionView { operator: session.operator, csrf: id.csrf(), expires_at: session.expires_at };
    let cookie = cookie(&id.reveal(), sessions::LASTS, api.is_dev);
    Ok(HttpResponse::Ok().insert_header((header::SET_COOKIE, cookie)).json(view))
}

/// The session that the request came with.
#[utoipa::path(
    get, path = "/v1/session", tag = "session",
    responses((status = 200, body = SessionView), (status = 401, description = "`unauthenticated`: there is none"))
)]
pub(super) async fn show(request: HttpRequest, operator: Operator) -> Result<HttpResponse, ApiProblem> {
    let Current { id, expires_at } = current(&request)?;
    Ok(HttpResponse::Ok().json(SessionView { operator: operator.name, csrf: id.csrf(), expires_at }))
}

/// Lets the operator out, here and on the server.
#[utoipa::path(
    delete, path = "/v1/session", tag = "session",
    responses((status = 204, description = "Over"), (status = 401, description = "`unauthenticated`: there is none"))
)]
pub(super) async fn end(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
) -> Result<HttpResponse, ApiProblem> {
    let hash = current(&request)?.id.hash();
    let (database, deadline) = (api.rulebook.database.clone(), context.deadline);
    let ending = async move {
        let mut tx = database.begin(deadline).await?;
        sessions::end(&mut tx, &hash).await?;
        Ok::<_, Error>(tx.commit().await?)
    };
    super::on_main(&api, durable::within(deadline, ending)).await?;
    api.live.leave(&hash);
    let gone = cookie("", Duration::ZERO, api.is_dev);
    Ok(HttpResponse::NoContent().insert_header((header::SET_COOKIE, gone)).finish())
}

fn current(request: &HttpRequest) -> Result<Current, Error> {
    request.extensions().get::<Current>().cloned().ok_or(Error::NoSession)
}

fn cookie(value: &str, lasts: Duration, is_dev: bool) -> String {
    // A local system has no TLS, and a browser would not send the cookie back.
    let secure = if is_dev { "" } else { "; Secure" };
    format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}", lasts.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_dev_the_cookie_travels_over_tls_alone() {
        let lasts = Duration::from_secs(60);
        assert_eq!(cookie("v", lasts, true), "console_session=v; HttpOnly; SameSite=Strict; Path=/; Max-Age=60");
        assert_eq!(
            cookie("v", lasts, false),
            "console_session=v; HttpOnly; SameSite=Strict; Path=/; Max-Age=60; Secure"
        );
    }
}
