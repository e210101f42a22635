//! The API: who gets in, extract, hand over to the main runtime, render.

mod audit;
mod current;
pub mod openapi;
pub mod operator;
mod rules;
mod switches;

use std::sync::Arc;

use actix_web::{HttpResponse, middleware::from_fn, web};
use chassis::{ApiProblem, Lifecycle, problem, server::Routes};
use serde::Serialize;

use crate::{Error, workflow::Rulebook};

/// What handlers need; one a process.
#[derive(Clone)]
pub struct Api {
    pub rulebook: Rulebook,
    pub lifecycle: Lifecycle,
}

#[must_use]
pub fn routes(api: Api) -> Routes {
    let api = web::Data::new(api);
    Arc::new(move |config| {
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
            .default_service(web::to(problem::unknown_path));
        // Before the operators' scope, which has the same beginning.
        config.app_data(api.clone()).configure(current::routes).service(scope);
    })
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
