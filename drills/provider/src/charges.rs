//! `POST /v1/charges` and the lookup by key.
//!
//! A charge runs as a task of its own: a caller that gives up and closes its connection does not undo it, which is
//! exactly the case that the system in front must cope with.

use actix_web::{HttpRequest, HttpResponse, web};
use chrono::Utc;
use contracts::{
    FieldError, Problem, ProblemType, headers,
    provider::{ChargeReply, ChargeRequest, ChargeState, LedgerCharge, Webhook, WebhookKind},
};

use crate::{
    body::{Body, required_key},
    fate::{Decision, Fate, Reply, Then},
    ledger::Booked,
    method::Method,
    problems::Refusal,
    server::Provider,
    silence::keep_silent,
};

pub async fn create(
    provider: web::Data<Provider>,
    request: HttpRequest,
    Body(body): Body<ChargeRequest>,
) -> Result<HttpResponse, Refusal> {
    let key = required_key(&request)?;
    let method = Method::parse(&body.payment_method).ok_or_else(unknown_method)?;
    let Fate { jitter, then } = provider.behaviour.fate_of(method);
    match then {
        Then::Fail { status } => {
            let _till = provider.tills.work(&provider.behaviour, method, jitter).await;
            Err(Refusal::simulated(status))
        }
        Then::Vanish => Ok(keep_silent(provider.hold_for, &provider.closing).await),
        Then::Decide { decision, reply } => {
            let own = provider.clone().into_inner();
            let charging = provider.spawn(async move {
                let _till = own.tills.work(&own.behaviour, method, jitter).await;
                charge(&own, key, body, decision).await
            });
            let booked = charging.await.map_err(|_| Refusal::new(ProblemType::Internal, "the charge was abandoned"))?;
            match reply {
                Reply::Lost if booked.is_ok() => Ok(keep_silent(provider.hold_for, &provider.closing).await),
                Reply::Lost | Reply::Sent => booked.map(|booked| answer(&booked)),
            }
        }
    }
}

pub async fn by_key(provider: web::Data<Provider>, key: web::Path<String>) -> Result<HttpResponse, Refusal> {
    match provider.ledger.act(|book| book.by_key(&key)).await? {
        Some(charge) => Ok(HttpResponse::Ok().json(reply_of(&charge))),
        None => Err(Problem::new(ProblemType::NotFound, "no charge with this key has been decided")
            .with("settle_ms", provider.behaviour.current().settle_ms)
            .into()),
    }
}

async fn charge(
    provider: &Provider,
    key: String,
    request: ChargeRequest,
    decision: Decision,
) -> Result<Booked<LedgerCharge>, Refusal> {
    let id = provider.new_id("ch");
    let booked = provider.ledger.act(|book| book.charge(id, key, request, decision, Utc::now())).await??;
    if !booked.replayed {
        let charge = &booked.entry;
        provider.notify(Webhook {
            id: provider.new_id("evt"),
            kind: match charge.state {
                ChargeState::Approved => WebhookKind::ChargeApproved,
                ChargeState::Declined => WebhookKind::ChargeDeclined,
            },
            key: charge.key.clone(),
            charge_id: charge.id.clone(),
            amount_minor: charge.amount_minor,
            currency: charge.currency,
            occurred_at: charge.at,
        });
    }
    Ok(booked)
}

fn unknown_method() -> Refusal {
    vec![FieldError::new("payment_method", "is not one that the provider knows")].into()
}

fn answer(booked: &Booked<LedgerCharge>) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    if booked.replayed {
        response.insert_header((headers::IDEMPOTENT_REPLAYED, "true"));
    }
    response.json(reply_of(&booked.entry))
}

fn reply_of(charge: &LedgerCharge) -> ChargeReply {
    ChargeReply { id: charge.id.clone(), state: charge.state, decline_code: charge.decline_code.clone() }
}
