//! The API document, from the handlers.

use utoipa::{
    Modify, OpenApi,
    openapi::{
        self,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{cancel, operator, orders, products};

#[derive(OpenApi)]
#[openapi(
    info(title = "order", description = "Places orders and tells what is known of them."),
    paths(
        orders::place, orders::get, orders::list, orders::history, cancel::cancel, products::get, products::list,
        operator::list, operator::get, operator::history
    ),
    // Named in a query alone, from which schemas are not gathered.
    components(schemas(contracts::order::OrderStatus, contracts::UserId)),
    modifiers(&Tokens)
)]
struct Document;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let user = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        let console = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("user", SecurityScheme::Http(user));
        components.add_security_scheme("console", SecurityScheme::Http(console));
    }
}

#[must_use]
pub fn document() -> openapi::OpenApi {
    Document::openapi()
}
