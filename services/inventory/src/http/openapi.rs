//! The API's document, served on the admin port.

use chassis::openapi::Internal;
use utoipa::OpenApi;

use super::{reservations, stock};

#[derive(OpenApi)]
#[openapi(
    info(title = "inventory", description = "Stock and reservations. Internal."),
    paths(
        reservations::reserve,
        reservations::show,
        reservations::commit,
        reservations::release,
        stock::list,
        stock::show,
        stock::restock
    ),
    modifiers(&Internal)
)]
pub struct Document;
