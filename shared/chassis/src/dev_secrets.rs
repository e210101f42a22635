//! Secrets that everybody knows, for development alone. A service refuses to start on them unless `APP_ENV=dev`.

/// Signs users' tokens.
pub const AUTH_JWT_SECRET: &str = "dev-only-user-token-secret-0123456789";
/// Signs the provider's webhooks.
pub const WEBHOOK_SECRET: &str = "dev-only-webhook-secret-0123456789abc";

/// Lets the operator `operator` into the console.
pub const OPERATOR_PASSWORD: &str = "operator-in-development";

const INTERNAL_PREFIX: &str = "dev-only-internal-token-of-";

/// The token that `service` shows when it calls another.
#[must_use]
pub fn internal_token(service: &str) -> String {
    format!("{INTERNAL_PREFIX}{service}")
}

/// Whether `secret` is one of the above.
#[must_use]
pub fn is_well_known(secret: &str) -> bool {
    [AUTH_JWT_SECRET, WEBHOOK_SECRET, OPERATOR_PASSWORD].contains(&secret) || secret.starts_with(INTERNAL_PREFIX)
}
