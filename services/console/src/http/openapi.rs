//! The API's document, served on the admin port.

use chassis::openapi::ForOperators;
use utoipa::OpenApi;

use super::{audit, current, rules, switches};

#[derive(OpenApi)]
#[openapi(
    info(title = "console", description = "Where operators look and act, and services ask for the rules."),
    paths(
        rules::list, rules::publish, rules::validate, rules::instances, rules::one, rules::diff, rules::canary,
        rules::promote, rules::rollback, switches::list, switches::turn, current::current, current::applied,
        audit::list
    ),
    modifiers(&ForOperators)
)]
pub struct Document;
