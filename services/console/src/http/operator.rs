//! Who gets in: operators alone, by the cookie of a session or by a token.
//!
//! A cookie is sent by the browser whoever asks it to, so whatever does more than look has to come from our own page:
//! it shows a token that only the page can know, and says no other origin. A token in a header is sent by nobody
//! unasked, and needs none of this.

use actix_web::{
    Error, HttpMessage,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{self, HeaderMap},
    },
    middleware::Next,
    web,
};
use chassis::{
    ApiProblem, RequestContext,
    auth::{self, Sender},
    guards, problem,
};
use chrono::{DateTime, Utc};

use super::Api;
use crate::{Error as Refusal, domain::session::SessionId, store::sessions};

/// The extractor of handlers.
pub use chassis::auth::Operator;

/// The name of the cookie.
pub const COOKIE: &str = "console_session";
/// Where the page shows that it is ours.
pub const CSRF: &str = "x-csrf-token";
/// By what the guards call whoever has yet to show who they are.
const LOGIN: &str = "login";

/// The session that a request came with, beside its operator.
#[derive(Debug, Clone)]
pub struct Current {
    pub id: SessionId,
    pub expires_at: DateTime<Utc>,
}

/// For scopes that operators call. Behind it are the [`guards`].
pub async fn require_operator<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let operator = if request.headers().contains_key(header::AUTHORIZATION) {
        auth::operator(&request)?
    } else {
        by_session(&request).await?
    };
    request.extensions_mut().insert(operator);
    guards::admit(request, next).await
}

/// For the session itself: beginning one is for those who are not in yet.
pub async fn admit_to_session<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    if request.method() != Method::POST {
        return require_operator(request, next).await;
    }
    if !is_of_our_page(request.headers()) {
        return Err(ApiProblem::from(Refusal::Foreign("the request comes from another page")).into());
    }
    request.extensions_mut().insert(Sender(LOGIN.to_owned()));
    guards::admit(request, next).await
}

async fn by_session(request: &ServiceRequest) -> Result<Operator, ApiProblem> {
    let id = session_of(request.headers()).ok_or(Refusal::NoSession)?;
    let api = request.app_data::<web::Data<Api>>().cloned();
    let deadline = request.extensions().get::<RequestContext>().map(|context| context.deadline);
    let (Some(api), Some(deadline)) = (api, deadline) else { return Err(problem::internal().into()) };
    let (database, hash) = (api.rulebook.database.clone(), id.hash());
    let finding = async move {
        let mut tx = database.begin(deadline).await?;
        let found = sessions::find(&mut tx, &hash).await?;
        tx.commit().await?;
        Ok::<_, Refusal>(found)
    };
    let found = api.lifecycle.run(durable::within(deadline, finding)).await.map_err(|_| problem::internal())??;
    let session = found.ok_or(Refusal::NoSession)?;
    let looks_only = matches!(*request.method(), Method::GET | Method::HEAD);
    if !looks_only && !is_of_our_page(request.headers()) {
        return Err(Refusal::Foreign("the request comes from another page").into());
    }
    let shown = text(request.headers(), CSRF).unwrap_or_default();
    if !looks_only && !id.has_csrf(shown) {
        return Err(Refusal::Foreign("x-csrf-token is not that of this session").into());
    }
    request.extensions_mut().insert(Current { id, expires_at: session.expires_at });
    Ok(Operator { name: session.operator })
}

/// The session that a request's cookie names, valid or not.
pub fn session_of(headers: &HeaderMap) -> Option<SessionId> {
    let cookies = headers.get_all(header::COOKIE).filter_map(|value| value.to_str().ok());
    let mut values = cookies.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    values.find_map(|(name, value)| (name == COOKIE).then(|| SessionId::parse(value)))?
}

/// Whether a browser says that the request comes from a page of our own; what is no browser says nothing.
fn is_of_our_page(headers: &HeaderMap) -> bool {
    if text(headers, "sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return false;
    }
    if !headers.contains_key(header::ORIGIN) {
        return true;
    }
    let origin = text(headers, "origin").unwrap_or_default();
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    host.zip(text(headers, "host")).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(header::HeaderName::from_static(name), header::HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_page_of_our_own_is_told_from_any_other() {
        let is_ours = |pairs: &[(&'static str, &str)]| is_of_our_page(&headers(pairs));
        let host = ("host", "console.example:8085");
        assert!(is_ours(&[host]));
        assert!(is_ours(&[host, ("origin", "http://console.example:8085")]));
        assert!(is_ours(&[host, ("origin", "https://Console.Example:8085"), ("sec-fetch-site", "same-origin")]));
        for origin in ["null", "", "http://console.example", "http://evil.example:8085", "file://console.example:8085"]
        {
            assert!(!is_ours(&[host, ("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "else"] {
            assert!(!is_ours(&[host, ("sec-fetch-site", site)]), "{site}");
        }
        assert!(!is_ours(&[("origin", "http://console.example:8085")]), "without a host");
    }

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let id = SessionId::generate();
        let cookie = format!("theme=dark; {COOKIE}={}; x=y", id.reveal());
        assert_eq!(session_of(&headers(&[("cookie", &cookie)])), Some(id.clone()));
        let own = format!("{COOKIE}={}", id.reveal());
        assert_eq!(session_of(&headers(&[("cookie", "a=b"), ("cookie", &own)])), Some(id));
        for cookie in ["", "x", &format!("{COOKIE}="), &format!("{COOKIE}=12"), &format!("x{own}")] {
            assert_eq!(session_of(&headers(&[("cookie", cookie)])), None, "{cookie}");
        }
    }
}
