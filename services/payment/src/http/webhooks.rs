//! `POST /v1/webhooks/provider`: what the provider says by itself.
//!
//! Stored and answered, then acted upon: the provider sends again what it got no answer to, so nothing that takes time
//! stands between the two.

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Query, RawBody},
};
use chrono::Utc;
use contracts::{Problem, ProblemType, headers, payment::Channel, provider::Webhook};
use serde::Deserialize;

use super::Api;
use crate::error::PaymentError;

/// The longest id that is stored.
const MAX_ID: usize = 255;

/// The address that a channel is given may name it; its notices do not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    #[serde(default)]
    channel: Option<Channel>,
}

/// Takes a notice, once and again. Signed over its bytes.
#[utoipa::path(
    post,
    path = "/v1/webhooks/provider",
    tag = "webhooks",
    params(
        ("channel" = Option<Channel>, Query, description = "Which channel's notices come to this address."),
        ("provider-signature" = String, Header, description = "`t=<unix>,v1=<hex hmac-sha256 of \"t.body\">`")
    ),
    request_body = Webhook,
    responses(
        (status = 204, description = "Stored, now or before."),
        (status = 400, description = "`invalid-request`", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "`unauthenticated`: not signed by the provider, or not now", body = Problem, content_type = "application/problem+json"),
        (status = 405, description = "`method-not-allowed`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`payload-too-large`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation-failed`", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`storage-unavailable`: send it again", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`deadline-exceeded`: refused on arrival", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub async fn provider(
    api: web::Data<Api>,
    context: RequestContext,
    request: HttpRequest,
    from: Query<From>,
    body: RawBody,
) -> Result<HttpResponse, ApiProblem> {
    let signature = request.headers().get(headers::PROVIDER_SIGNATURE).and_then(|value| value.to_str().ok());
    if !signature.is_some_and(|signature| api.webhook_secrets.sign(signature, &body.0, Utc::now().timestamp())) {
        // One answer for all that can be wrong: which of it was helps only an attacker.
        return Err(Problem::new(ProblemType::Unauthenticated, "a valid provider-signature is required").into());
    }
    let webhook: Webhook = serde_json::from_slice(&body.0)
        .map_err(|error| Problem::new(ProblemType::InvalidRequest, format!("no webhook: {error}")))?;
    check(&webhook)?;
    let payments = api.payments.clone();
    let (channel, deadline) = (from.0.channel, context.deadline);
    let storing = async move { payments.store_notice(channel, &webhook, deadline).await };
    let stored = api.lifecycle.run(storing).await.map_err(PaymentError::from)?;
    stored.map_err(PaymentError::from)?;
    Ok(HttpResponse::NoContent().finish())
}

/// What can be stored: it comes from outside, however well it is signed.
fn check(webhook: &Webhook) -> Result<(), ApiProblem> {
    let is_word = |text: &str| (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    for (field, text) in [("id", &webhook.id), ("key", &webhook.key), ("charge_id", &webhook.charge_id)] {
        if !is_word(text) {
            let problem = Problem::new(ProblemType::ValidationFailed, "a field is out of its range");
            return Err(problem.with_field(field, "must be 1 to 255 visible ASCII characters").into());
        }
    }
    if webhook.amount_minor <= 0 {
        let problem = Problem::new(ProblemType::ValidationFailed, "a field is out of its range");
        return Err(problem.with_field("amount_minor", "must be greater than 0").into());
    }
    Ok(())
}
