//! The API's document, served on the admin port.

use chassis::openapi::Internal;
use utoipa::OpenApi;

use super::{compensations, coupons, redemptions};

#[derive(OpenApi)]
#[openapi(
    info(title = "coupon", description = "Coupons and their redemptions. Internal."),
    paths(
        redemptions::redeem,
        redemptions::show,
        redemptions::commit,
        redemptions::release,
        coupons::show,
        compensations::list
    ),
    modifiers(&Internal)
)]
pub struct Document;
