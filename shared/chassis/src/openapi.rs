//! What the OpenAPI documents have in common: for internal APIs the bearer token and the refusals that come from the
//! layers around every handler, and for all of them what the guards answer. Written down once here, so that a document
//! lists them for each of its routes.

use contracts::{Problem, headers};
use utoipa::{
    Modify, PartialSchema, ToSchema,
    openapi::{
        self, Content, Ref, RefOr, Response,
        path::{Operation, PathItem},
        security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    },
};

/// For `modifiers(&Internal)` of a document whose routes are all for services.
pub struct Internal;

/// For `modifiers(&ForOperators)` of a document whose routes are for operators, but for those that name
/// `internal_token` as their security.
pub struct ForOperators;

const SCHEME: &str = "internal_token";
const OPERATOR_SCHEME: &str = "operator";
const FORBIDDEN: (&str, &str) = ("403", "`forbidden`: these credentials are not for this");

/// What any route answers when its handler is not reached, or not in time.
const AROUND: [(&str, &str); 5] = [
    ("400", "`invalid-request`: a header, the query or the body could not be read"),
    ("401", "`unauthenticated`: no token of a service that may call"),
    ("500", "`internal`"),
    ("503", "`storage-unavailable`: the database did not answer in time"),
    ("504", "`deadline-exceeded`: less time was left than anything useful takes"),
];
/// What routes with a body answer besides.
const BODY: [(&str, &str); 3] = [
    ("413", "`payload-too-large`"),
    ("415", "`unsupported-media-type`"),
    ("422", "`validation-failed`, naming each field"),
];

impl Modify for Internal {
    fn modify(&self, document: &mut openapi::OpenApi) {
        describe(document, &[SCHEME], &[]);
    }
}

impl Modify for ForOperators {
    fn modify(&self, document: &mut openapi::OpenApi) {
        describe(document, &[OPERATOR_SCHEME, SCHEME], &[FORBIDDEN]);
    }
}

/// The first of `schemes` is what a route needs that does not say otherwise.
fn describe(document: &mut openapi::OpenApi, schemes: &[&str], more: &[(&str, &str)]) {
    let components = document.components.get_or_insert_default();
    for scheme in schemes {
        components.add_security_scheme(*scheme, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    document.security = schemes.first().map(|scheme| vec![SecurityRequirement::new(*scheme, Vec::<String>::new())]);
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            complete(operation, more);
        }
    }
}

/// Adds what the guards answer in a handler's place, on every route.
pub(crate) fn add_guards(document: &mut openapi::OpenApi) {
    const LIMITED: &str = "`rate-limited`: `mechanism` names the limit, `retry_after_ms` says when to return";
    const OVERLOADED: &str = "`overloaded`: too much is in flight";
    let problem = || Content::new(Some(Ref::from_schema_name(Problem::name()))).into();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        for (status, description) in [("429", LIMITED), ("503", OVERLOADED)] {
            let responses = &mut operation.responses.responses;
            let missing = || RefOr::T(Response::new(String::new()));
            let RefOr::T(response) = responses.entry(status.to_owned()).or_insert_with(missing) else { continue };
            if !response.description.is_empty() {
                response.description.push_str("; or ");
            }
            response.description.push_str(description);
            response.content.entry(headers::PROBLEM_JSON.to_owned()).or_insert_with(problem);
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
}

/// Adds what is missing, and gives every refusal its body.
fn complete(operation: &mut Operation, more: &[(&str, &str)]) {
    let body: &[_] = if operation.request_body.is_some() { &BODY } else { &[] };
    for (status, description) in AROUND.iter().chain(body).chain(more) {
        let missing = || RefOr::T(Response::new(*description));
        operation.responses.responses.entry((*status).to_owned()).or_insert_with(missing);
    }
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && matches!(status.as_bytes().first(), Some(b'4' | b'5'))
        {
            let problem = Content::new(Some(Ref::from_schema_name(Problem::name())));
            response.content.entry(headers::PROBLEM_JSON.to_owned()).or_insert_with(|| problem.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use utoipa::OpenApi;

    use super::*;

    #[utoipa::path(get, path = "/plain", responses((status = 200)))]
    #[expect(dead_code, reason = "only its description is used")]
    async fn plain() {}

    #[utoipa::path(get, path = "/storing", responses((status = 503, description = "The database is unavailable")))]
    #[expect(dead_code, reason = "only its description is used")]
    async fn storing() {}

    #[derive(OpenApi)]
    #[openapi(paths(plain, storing))]
    struct Document;

    #[test]
    fn every_route_lists_what_the_guards_answer_beside_its_own_refusals() {
        let mut document = Document::openapi();
        add_guards(&mut document);
        let document = serde_json::to_value(document).unwrap();
        for path in ["/plain", "/storing"] {
            let responses = &document["paths"][path]["get"]["responses"];
            for (status, slug) in [("429", "`rate-limited`"), ("503", "`overloaded`")] {
                assert!(responses[status]["description"].as_str().unwrap().contains(slug), "{responses}");
                assert!(responses[status]["content"][headers::PROBLEM_JSON].is_object(), "{responses}");
            }
        }
        let said = document["paths"]["/storing"]["get"]["responses"]["503"]["description"].as_str().unwrap();
        assert!(said.starts_with("The database is unavailable; or "), "{said}");
    }
}
