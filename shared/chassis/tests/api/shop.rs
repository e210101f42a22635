//! A shop that counts who gets through to it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use actix_web::{HttpResponse, middleware::from_fn, web};
use chassis::{ApiProblem, App, Wiring, auth};
use contracts::{Problem, ProblemType, Service, UserId};
use futures_util::future::join_all;
use reqwest::{RequestBuilder, Response};
use rules::{Rules, RulesHandle};
use serde_json::{Value, json};
use testkit::{TestApp, app::wiring, eventually, user_token};
use tokio::{sync::Semaphore, task::JoinHandle};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi()]
struct Document;

pub struct Shop {
    pub app: TestApp,
    pub rules: RulesHandle,
    /// Requests that reached their handler.
    pub handled: Arc<AtomicUsize>,
    /// `GET /v1/products` and `POST …/cancel` answer once they get a permit.
    pub go: Arc<Semaphore>,
}

impl Shop {
    pub async fn open(rules: Rules) -> Self {
        Self::open_wired(wiring(Service::Order, rules)).await
    }

    pub async fn open_wired(wiring: Wiring) -> Self {
        let (handled, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let handle = Arc::new(Mutex::new(None));
        let (counted, held, given) = (handled.clone(), go.clone(), handle.clone());
        let app = TestApp::start_wired(wiring, |wiring, _| async move {
            *given.lock().unwrap() = Some(wiring.rules.handle);
            Ok(App {
                routes: Arc::new(move |routes| configure(routes, &counted, &held)),
                openapi: Document::openapi(),
                ready: Arc::new(|| Box::pin(async { Ok(()) })),
                state: Arc::new(|| json!({})),
                meters: || {},
                close: Box::pin(async {}),
            })
        })
        .await;
        let rules = handle.lock().unwrap().take().unwrap();
        Self { app, rules, handled, go }
    }

    pub fn order(&self, token: &str) -> RequestBuilder {
        self.app.post("/v1/orders").bearer_auth(token)
    }

    /// How many of `count` orders at once are let in, and by what the others are refused.
    pub async fn orders(&self, token: &str, count: usize) -> (usize, Vec<Option<String>>) {
        let answers = join_all((0..count).map(|_| self.order(token).send())).await;
        let mut refused = Vec::new();
        for answer in answers.into_iter().map(Result::unwrap).filter(|answer| !answer.status().is_success()) {
            refused.push(problem(answer).await.mechanism);
        }
        (count - refused.len(), refused)
    }

    /// A request that stays until [`Self::go`] lets it.
    pub fn held(&self, request: RequestBuilder) -> JoinHandle<u16> {
        tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
    }

    pub async fn state(&self) -> Value {
        let url = self.app.admin_url("/internal/state");
        self.app.client.get(url).send().await.unwrap().json::<Value>().await.unwrap()["guards"].clone()
    }

    pub async fn until_in_flight(&self, count: u64) {
        eventually("so many are in flight", || async {
            (self.state().await["in_flight"]["taken"] == count).then_some(())
        })
        .await;
    }
}

fn configure(routes: &mut web::ServiceConfig, handled: &Arc<AtomicUsize>, go: &Arc<Semaphore>) {
    let count = |handled: &Arc<AtomicUsize>| {
        let handled = handled.clone();
        move || {
            handled.fetch_add(1, Ordering::Relaxed);
            async { HttpResponse::Ok().finish() }
        }
    };
    let hold = || {
        let go = go.clone();
        move || {
            let go = go.clone();
            async move {
                go.acquire().await.unwrap().forget();
                HttpResponse::Ok().finish()
            }
        }
    };
    routes
        .service(
            web::scope("/v1/stock").wrap(from_fn(auth::require_caller)).service(web::resource("").get(count(handled))),
        )
        .service(
            web::scope("/v1/webhooks")
                .wrap(from_fn(auth::accept_sender))
                .service(web::resource("/provider").post(count(handled))),
        )
        .service(
            web::scope("/v1")
                .wrap(from_fn(auth::require_user))
                .service(web::resource("/orders").get(count(handled)).post(count(handled)))
                .service(web::resource("/orders/{order_id}").get(count(handled)))
                .service(web::resource("/orders/{order_id}/cancel").post(hold()))
                .service(web::resource("/products").get(hold()))
                .service(web::resource("/orders/{order_id}/history").get(
                    async || -> Result<HttpResponse, ApiProblem> {
                        let problem = Problem::new(ProblemType::OutOfStock, "no more").with_mechanism("degrade.coupon");
                        Err(problem.into())
                    },
                ))
                .service(web::resource("/orders/{order_id}/busy").get(async || -> Result<HttpResponse, ApiProblem> {
                    Err(Problem::new(ProblemType::IdempotencyInFlight, "it runs").into())
                }))
                .service(web::resource("/panics").get(async || -> HttpResponse { panic!("on purpose") })),
        );
}

pub async fn problem(response: Response) -> Problem {
    response.json().await.unwrap()
}

pub fn stranger() -> String {
    user_token(UserId::generate())
}
