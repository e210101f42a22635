//! What a drill turns and reads: behaviour, reset, ledger, health.

use actix_web::{HttpResponse, web};
use contracts::provider::SetBehaviour;
use serde::Deserialize;
use serde_json::json;

use crate::{body::Body, problems::Refusal, server::Provider};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    #[serde(default)]
    ledger: bool,
}

pub async fn behaviour(provider: web::Data<Provider>) -> HttpResponse {
    HttpResponse::Ok().json(provider.behaviour.current())
}

pub async fn set_behaviour(provider: web::Data<Provider>, Body(change): Body<SetBehaviour>) -> HttpResponse {
    let behaviour = provider.behaviour.with(change);
    provider.behaviour.set(behaviour.clone());
    HttpResponse::Ok().json(behaviour)
}

pub async fn reset(provider: web::Data<Provider>, query: web::Query<Reset>) -> Result<HttpResponse, Refusal> {
    let behaviour = provider.behaviour.reset();
    if query.ledger {
        provider.ledger.act(|book| book.clear()).await?;
    }
    Ok(HttpResponse::Ok().json(behaviour))
}

pub async fn ledger(provider: web::Data<Provider>) -> Result<HttpResponse, Refusal> {
    Ok(HttpResponse::Ok().json(provider.ledger.act(|book| book.ledger()).await?))
}

pub async fn healthz(provider: web::Data<Provider>) -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "ok", "name": provider.name}))
}
