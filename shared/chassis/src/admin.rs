//! The admin listener: alive, ready, metrics, state and the API document. Apart from the API, so that it answers while
//! that one is saturated.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use actix_web::{HttpResponse, web};
use contracts::Service;
use rules::{Origin, RulesHandle};
use serde_json::{Value, json};

use crate::{Lifecycle, guards::Guards, problem, telemetry};

/// Whether the service can do its job, as far as it can tell without asking its siblings.
pub type ReadyCheck = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;
/// The service's own part of `/internal/state`. Never a secret.
pub type StateView = Arc<dyn Fn() -> Value + Send + Sync>;

/// Everything that the admin routes show.
pub struct Admin {
    pub service: Service,
    pub instance: String,
    pub lifecycle: Lifecycle,
    pub rules: RulesHandle,
    pub ready: ReadyCheck,
    pub state: StateView,
    pub guards: Arc<Guards>,
    pub openapi: Value,
}

/// The longest that a readiness check may take.
const READY_TIMEOUT: Duration = Duration::from_millis(800);

pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/healthz").get(healthz).default_service(problem::only("GET")))
        .service(web::resource("/readyz").get(readyz).default_service(problem::only("GET")))
        .service(web::resource("/metrics").get(metrics_text).default_service(problem::only("GET")))
        .service(web::resource("/internal/state").get(internal_state).default_service(problem::only("GET")))
        .service(web::resource("/openapi.json").get(openapi).default_service(problem::only("GET")));
}

async fn healthz(admin: web::Data<Admin>) -> HttpResponse {
    match admin.lifecycle.dead_job() {
        None => HttpResponse::Ok().json(json!({"status": "alive"})),
        Some(job) => HttpResponse::ServiceUnavailable().json(json!({"status": "a job is down", "job": job})),
    }
}

async fn readyz(admin: web::Data<Admin>) -> HttpResponse {
    let reason = if admin.lifecycle.is_draining() {
        Some("stopping".to_owned())
    } else if !admin.lifecycle.is_ready() {
        Some("starting".to_owned())
    } else if let Some(job) = admin.lifecycle.dead_job() {
        Some(format!("the job {job} is down"))
    } else {
        // On the main runtime, where the pool's connections live.
        let check = tokio::time::timeout(READY_TIMEOUT, (admin.ready)());
        match admin.lifecycle.run(check).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(reason))) => Some(reason),
            Ok(Err(_)) => Some(format!("the check took longer than {READY_TIMEOUT:?}")),
            Err(panicked) => Some(panicked.to_string()),
        }
    };
    match reason {
        None => HttpResponse::Ok().json(json!({"status": "ready"})),
        Some(reason) => HttpResponse::ServiceUnavailable().json(json!({"status": "not ready", "reason": reason})),
    }
}

async fn metrics_text(admin: web::Data<Admin>) -> HttpResponse {
    metrics::gauge!("http_inflight_requests").set(admin.lifecycle.in_flight() as f64);
    telemetry::measure_process(admin.lifecycle.alive_tasks());
    admin.lifecycle.measure();
    let in_force = admin.rules.in_force();
    admin.guards.measure(&in_force.rules);
    metrics::gauge!("stability_rules_version").set(in_force.rules.version as f64);
    for origin in [Origin::Console, Origin::LastKnownGood, Origin::File, Origin::Default] {
        let here = f64::from(u8::from(origin == in_force.origin));
        metrics::gauge!("stability_rules_origin", "origin" => origin.as_str()).set(here);
    }
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(telemetry::metrics().render())
}

async fn internal_state(admin: web::Data<Admin>) -> HttpResponse {
    let state = (admin.state)();
    let in_force = admin.rules.in_force();
    HttpResponse::Ok().json(json!({
        "service": admin.service,
        "instance": admin.instance,
        "build": env!("CARGO_PKG_VERSION"),
        "ready": admin.lifecycle.is_ready(),
        "in_flight": admin.lifecycle.in_flight(),
        "rules": {"version": in_force.rules.version, "origin": in_force.origin},
        "guards": admin.guards.snapshot(&in_force.rules),
        "state": state,
    }))
}

async fn openapi(admin: web::Data<Admin>) -> HttpResponse {
    HttpResponse::Ok().json(&admin.openapi)
}
