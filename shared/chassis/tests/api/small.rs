//! A service that does nothing but what these tests need.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix_web::{HttpResponse, middleware::from_fn, web};
use chassis::{ApiProblem, App, Lifecycle, Wiring, auth, problem};
use contracts::Service;
use rules::Rules;
use serde_json::json;
use testkit::TestApp;
use tokio::sync::Semaphore;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi()]
struct Document;

/// What the tests hold in their hands.
#[derive(Clone)]
pub struct Strings {
    /// `/slow` answers once it gets a permit.
    pub go: Arc<Semaphore>,
    pub closed: Arc<AtomicBool>,
    pub database_answers: Arc<AtomicBool>,
}

pub async fn start() -> (TestApp, Strings) {
    let strings = Strings {
        go: Arc::new(Semaphore::new(0)),
        closed: Arc::default(),
        database_answers: Arc::new(AtomicBool::new(true)),
    };
    let held = strings.clone();
    let app = TestApp::start(Service::Inventory, Rules::default(), |_: Wiring, lifecycle| async move {
        let (slow, closed, answers) = (held.go, held.closed, held.database_answers);
        Ok(App {
            routes: Arc::new(move |routes| configure(routes, &lifecycle, &slow)),
            openapi: Document::openapi(),
            ready: Arc::new(move || {
                let answers = answers.load(Ordering::Relaxed);
                Box::pin(async move { if answers { Ok(()) } else { Err("no database".to_owned()) } })
            }),
            state: Arc::new(|| json!({})),
            meters: || {},
            close: Box::pin(async move { closed.store(true, Ordering::Relaxed) }),
        })
    })
    .await;
    (app, strings)
}

fn configure(routes: &mut web::ServiceConfig, lifecycle: &Lifecycle, go: &Arc<Semaphore>) {
    let (lifecycle, go) = (lifecycle.clone(), go.clone());
    let panicking = lifecycle.clone();
    routes
        .service(web::resource("/handler-panics").get(async || -> HttpResponse { panic!("on purpose") }))
        .service(web::resource("/work-panics").get(move || {
            let lifecycle = panicking.clone();
            async move {
                let done = lifecycle.run(async { panic!("on purpose") }).await;
                done.map(|()| HttpResponse::Ok().finish()).map_err(|_| ApiProblem::from(problem::internal()))
            }
        }))
        .service(web::resource("/slow").get(move || {
            let (lifecycle, go) = (lifecycle.clone(), go.clone());
            async move {
                let waited = lifecycle.run(async move { go.acquire().await.is_ok() }).await;
                HttpResponse::Ok().json(waited.unwrap_or(false))
            }
        }))
        .service(
            web::scope("/internal")
                .wrap(from_fn(auth::require_caller))
                .service(web::resource("/who").get(async |caller: auth::Caller| caller.0)),
        )
        // A route that forgot its scope lets nobody in.
        .service(web::resource("/unguarded").get(async |user: auth::User| user.id.to_string()));
}

/// Long enough for anything here.
pub const PATIENCE: Duration = Duration::from_secs(10);
