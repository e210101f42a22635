//! A service that answers by asking another one, and says at which level it began.

use std::sync::{Arc, Mutex};

use actix_web::{HttpResponse, middleware::from_fn, web};
use chassis::{App, Degradation, Downstream, RequestContext, Wiring, auth};
use contracts::Service;
use reqwest::RequestBuilder;
use rules::{Rules, RulesHandle};
use serde_json::{Value, json};
use testkit::{TestApp, app::wiring};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi()]
struct Document;

pub struct Relay {
    pub app: TestApp,
    pub rules: RulesHandle,
    pub callee: Downstream,
}

impl Relay {
    pub async fn start(rules: Rules, callee_url: &str) -> Self {
        Self::start_wired(wiring(Service::Order, rules), callee_url).await
    }

    /// `GET /v1/products` asks `recommendation` at `callee_url`.
    pub async fn start_wired(wiring: Wiring, callee_url: &str) -> Self {
        let url = callee_url.to_owned();
        let given = Arc::new(Mutex::new(None));
        let gives = given.clone();
        let app = TestApp::start_wired(wiring, |wiring, lifecycle| async move {
            let rules = wiring.rules.handle;
            let callee = Downstream::live(
                "recommendation",
                &url,
                Some("secret"),
                &rules,
                |downstreams| &downstreams.recommendation,
                &lifecycle,
            )?;
            let degradation = Degradation::new(&rules, &lifecycle);
            *gives.lock().unwrap() = Some((rules, callee.clone()));
            let answer = {
                let callee = callee.clone();
                move |context: RequestContext| {
                    let (callee, degradation) = (callee.clone(), degradation.clone());
                    async move { relayed(&callee, &degradation, context).await }
                }
            };
            Ok(App {
                routes: Arc::new(move |routes: &mut web::ServiceConfig| {
                    let products = || web::resource("/products").get(answer.clone());
                    let stock = || web::resource("").get(answer.clone());
                    routes
                        .service(web::scope("/v1/stock").wrap(from_fn(auth::require_caller)).service(stock()))
                        .service(web::scope("/v1").wrap(from_fn(auth::require_user)).service(products()));
                }),
                openapi: Document::openapi(),
                ready: Arc::new(|| Box::pin(async { Ok(()) })),
                state: Arc::new(|| json!({})),
                meters: || {},
                close: Box::pin(async {}),
            })
        })
        .await;
        let (rules, callee) = given.lock().unwrap().take().unwrap();
        Self { app, rules, callee }
    }

    pub fn products(&self, token: &str) -> RequestBuilder {
        self.app.get("/v1/products").bearer_auth(token)
    }

    pub async fn state(&self) -> Value {
        let url = self.app.admin_url("/internal/state");
        self.app.client.get(url).send().await.unwrap().json::<Value>().await.unwrap()["guards"].clone()
    }

    pub async fn metrics(&self) -> String {
        self.app.client.get(self.app.admin_url("/metrics")).send().await.unwrap().text().await.unwrap()
    }
}

/// 200 with what came of it, or 500 where the callee failed.
async fn relayed(callee: &Downstream, degradation: &Degradation, context: RequestContext) -> HttpResponse {
    let level = degradation.level(&context, "recommendation");
    if level != Some("live") {
        return HttpResponse::Ok().json(json!({"level": level}));
    }
    match callee.get::<Value>(&context, "/x").await {
        Ok(_) => HttpResponse::Ok().json(json!({"level": level})),
        Err(chassis::CallError::NotSent(why)) => HttpResponse::Ok().json(json!({"not_sent": why.as_str()})),
        Err(_) => HttpResponse::InternalServerError().finish(),
    }
}
