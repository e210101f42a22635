//! `POST /v1/charges/{id}/refunds`: gives money back, once a key and never more than was charged.

use actix_web::{HttpRequest, HttpResponse, web};
use chrono::Utc;
use contracts::{
    ProblemType, headers,
    provider::{LedgerRefund, RefundReply, RefundRequest, Webhook, WebhookKind},
};

use crate::{
    body::{Body, required_key},
    ledger::Booked,
    problems::Refusal,
    server::Provider,
};

pub async fn create(
    provider: web::Data<Provider>,
    request: HttpRequest,
    charge_id: web::Path<String>,
    Body(body): Body<RefundRequest>,
) -> Result<HttpResponse, Refusal> {
    let key = required_key(&request)?;
    let own = provider.clone().into_inner();
    // A task of its own: a caller that leaves must not cost a refund that was made its webhook.
    let refunding = provider.spawn(async move { refund(&own, key, &charge_id, body.amount_minor).await });
    let booked = refunding.await.map_err(|_| Refusal::new(ProblemType::Internal, "the refund was abandoned"))??;

    let mut response = HttpResponse::Ok();
    if booked.replayed {
        response.insert_header((headers::IDEMPOTENT_REPLAYED, "true"));
    }
    let LedgerRefund { id, charge_id, amount_minor, .. } = booked.entry;
    Ok(response.json(RefundReply { id, charge_id, amount_minor }))
}

async fn refund(
    provider: &Provider,
    key: String,
    charge_id: &str,
    amount_minor: i64,
) -> Result<Booked<LedgerRefund>, Refusal> {
    let id = provider.new_id("re");
    let Booked { entry: (refund, currency), replayed } =
        provider.ledger.act(|book| book.refund(id, key, charge_id, amount_minor, Utc::now())).await??;
    if !replayed {
        provider.notify(Webhook {
            id: provider.new_id("evt"),
            kind: WebhookKind::RefundSucceeded,
            key: refund.key.clone(),
            charge_id: refund.charge_id.clone(),
            amount_minor,
            currency,
            occurred_at: refund.at,
        });
    }
    Ok(Booked { entry: refund, replayed })
}
