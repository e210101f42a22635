//! The API: who gets in, extract, hand over to the main runtime, render.

mod audit;
mod current;
mod faults;
mod letters;
mod live;
pub mod openapi;
pub mod operator;
mod orders;
mod page;
mod reason;
mod reviews;
mod rules;
mod session;
mod switches;

use std::sync::Arc;

use actix_web::{HttpResponse, middleware::from_fn, web};
use chassis::{ApiProblem, Lifecycle, problem, server::Routes};
use events::KafkaConfig;
use resilience::rate_limit::PerKey;
use serde::Serialize;
use tokio::sync::Notify;

use crate::{
    Error,
    domain::operators::Operators,
    downstream::Callees,
    workflow::{Rulebook, live::Live},
};

/// What handlers need; one a process.
#[derive(Clone)]
pub struct Api {
    pub rulebook: Rulebook,
    pub lifecycle: Lifecycle,
    pub live: Arc<Live>,
    pub callees: Callees,
    pub kafka: KafkaConfig,
    /// A dead letter was sent again.
    pub letters_changed: Arc<Notify>,
    pub operators: Operators,
    /// Guesses at passwords, by name.
    pub attempts: Arc<PerKey<String>>,
    pub is_dev: bool,
}

#[must_use]
pub fn routes(api: Api) -> Routes {
    let api = web::Data::new(api);
    Arc::new(move |config| {
        let session = web::scope("/v1/session").wrap(from_fn(operator::admit_to_session)).service(
            web::resource("")
                .get(session::show)
                .post(session::begin)
                .delete(session::end)
                .default_service(problem::only("GET, POST, DELETE")),
        );
        let scope = web::scope("/v1")
            .wrap(from_fn(operator::require_operator))
            .configure(rules::routes)
            .service(
                web::resource("/switches")
                    .get(switches::list)
                    .post(switches::turn)
                    .default_service(problem::only("GET, POST")),
            )
            .service(web::resource("/audit").get(audit::list).default_service(problem::only("GET")))
            .configure(of_the_live_view)
            .configure(of_faults)
            .default_service(web::to(problem::unknown_path));
        // Before the operators' scope, which has the same beginning.
        config.app_data(api.clone()).configure(page::parts).configure(current::routes).service(session).service(scope);
    })
}

fn of_the_live_view(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/live").get(live::show).default_service(problem::only("GET")))
        .service(web::resource("/events").get(live::events).default_service(problem::only("GET")))
        .service(
            web::resource("/orders").get(orders::list).post(orders::place).default_service(problem::only("GET, POST")),
        )
        .service(web::resource("/orders/{order_id}").get(orders::get).default_service(problem::only("GET")))
        .service(web::resource("/orders/{order_id}/history").get(orders::history).default_service(problem::only("GET")))
        .service(web::resource("/products").get(orders::products).default_service(problem::only("GET")))
        .service(web::resource("/dead-letters").get(letters::list).default_service(problem::only("GET")))
        .service(
            web::resource("/dead-letters/{letter}/replay").post(letters::replay).default_service(problem::only("POST")),
        )
        .service(web::resource("/reviews").get(reviews::list).default_service(problem::only("GET")))
        .service(web::resource("/reviews/{review}/ask").post(reviews::ask).default_service(problem::only("POST")));
}

fn of_faults(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/faults")
                .get(faults::list)
                .post(faults::set)
                .delete(faults::remove_all)
                .default_service(problem::only("GET, POST, DELETE")),
        )
        .service(
            web::resource("/faults/{link}/{name}").delete(faults::remove).default_service(problem::only("DELETE")),
        );
}

/// Runs `work` to its end on the main runtime, where pools and clients live.
async fn on_main<T: Send + 'static>(
    api: &Api,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, ApiProblem> {
    Ok(api.lifecycle.run(work).await.map_err(Error::from)??)
}

/// Runs `work` to its end on the main runtime, and answers 200 with what comes out.
async fn answer<T: Serialize + Send + 'static>(
    api: &Api,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<HttpResponse, ApiProblem> {
    let answer = api.lifecycle.run(work).await.map_err(|_| problem::internal())??;
    Ok(HttpResponse::Ok().json(answer))
}

/// Items of one page unless asked otherwise, and at most.
const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 200;

/// `?limit=&cursor=`, as text, so that a refusal can name the one that is wrong. The cursor is the number of the last
/// item of the page before.
#[derive(Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PageQuery {
    /// 1 to 200, by default 50.
    limit: Option<String>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

impl PageQuery {
    /// How many, and below which number.
    fn read(&self) -> Result<(i64, i64), Error> {
        let limit = match &self.limit {
            None => DEFAULT_LIMIT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=MAX_LIMIT).contains(limit))
                .ok_or(Error::BadQuery { field: "limit", detail: "must be 1 to 200" })?,
        };
        let below = match &self.cursor {
            None => i64::MAX,
            Some(text) => text
                .parse()
                .ok()
                .filter(|number| *number > 0)
                .ok_or(Error::BadQuery { field: "cursor", detail: "is none that was given out" })?,
        };
        Ok((limit, below))
    }
}
