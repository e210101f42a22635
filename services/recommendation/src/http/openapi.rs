//! The API's document, served on the admin port.

use chassis::openapi::Internal;
use utoipa::OpenApi;

use super::recommendations;

#[derive(OpenApi)]
#[openapi(
    info(title = "recommendation", description = "What is bought together, and what is bought a lot. Internal."),
    paths(recommendations::list),
    modifiers(&Internal)
)]
pub struct Document;
