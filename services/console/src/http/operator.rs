//! Who gets in: operators alone, by the token of one.

use actix_web::{
    Error, HttpMessage,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
};
/// The extractor of handlers.
pub use chassis::auth::Operator;
use chassis::{auth, guards};

/// For scopes that operators call. Behind it are the [`guards`].
pub async fn require_operator<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let operator = auth::operator(&request)?;
    request.extensions_mut().insert(operator);
    guards::admit(request, next).await
}
