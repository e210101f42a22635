//! The API's document, served on the admin port.

use chassis::openapi::ForOperators;
use utoipa::OpenApi;

use super::{audit, rules};

#[derive(OpenApi)]
#[openapi(
    info(title = "console", description = "Where operators look and act."),
    paths(rules::list, audit::list),
    modifiers(&ForOperators)
)]
pub struct Document;
