//! The API document, served at `/openapi.json` of the admin listener.

use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};

#[derive(OpenApi)]
#[openapi(
    info(title = "payment", description = "Owns what the payment provider was told, and what is known of its answers."),
    paths(
        super::payments::charge,
        super::payments::get,
        super::payments::fence,
        super::refunds::request,
        super::reviews::list,
        super::reviews::refunds,
        super::reviews::ask,
        super::webhooks::provider
    ),
    // Named in paths alone, from which schemas are not gathered.
    components(schemas(contracts::AttemptId)),
    modifiers(&InternalToken)
)]
struct Document;

#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// The way in: a service's own token. The provider signs instead.
struct InternalToken;

impl Modify for InternalToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        document.components.get_or_insert_default().add_security_scheme("internal", SecurityScheme::Http(bearer));
    }
}
