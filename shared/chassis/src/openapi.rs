//! What the OpenAPI documents of internal APIs have in common: the bearer token, and the refusals that come from the
//! layers around every handler. Written down once here, so that a document lists them for each of its routes.

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

const SCHEME: &str = "internal_token";

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
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(SCHEME, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
        Problem::schemas(&mut schemas);
        components.schemas.extend(schemas);
        document.security = Some(vec![SecurityRequirement::new(SCHEME, Vec::<String>::new())]);
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                complete(operation);
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
}

/// Adds what is missing, and gives every refusal its body.
fn complete(operation: &mut Operation) {
    let body: &[_] = if operation.request_body.is_some() { &BODY } else { &[] };
    for (status, description) in AROUND.iter().chain(body) {
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
