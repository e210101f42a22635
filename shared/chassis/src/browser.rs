//! What a service that is opened in a browser tells it with every answer, refusals included.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};

/// No inline script or style at all, nothing from elsewhere, and nobody's frame around it.
const POLICY: &str = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const ALWAYS: [(&str, &str); 3] =
    [("content-security-policy", POLICY), ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")];

/// Adds what is not there yet. Answers of the API are kept nowhere.
pub(crate) fn protect(headers: &mut HeaderMap, path: &str) {
    let of_api = path.starts_with("/v1").then_some(("cache-control", "no-store"));
    for (name, value) in ALWAYS.into_iter().chain(of_api) {
        let name = HeaderName::from_static(name);
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}
