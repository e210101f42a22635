//! The API document, from the handlers.

use utoipa::{
    Modify, OpenApi,
    openapi::{
        self,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{cancel, orders, products};

#[derive(OpenApi)]
#[openapi(
    info(title = "order", description = "Places orders and tells what is known of them."),
    paths(orders::place, orders::get, orders::list, orders::history, cancel::cancel, products::get, products::list),
    modifiers(&UserToken)
)]
struct Document;

struct UserToken;

impl Modify for UserToken {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        document.components.get_or_insert_default().add_security_scheme("user", SecurityScheme::Http(scheme));
    }
}

#[must_use]
pub fn document() -> openapi::OpenApi {
    Document::openapi()
}
