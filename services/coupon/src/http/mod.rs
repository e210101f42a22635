//! The API: extract, hand over to the workflow on the main runtime, render.

mod compensations;
mod coupons;
pub mod openapi;
mod redemptions;

use std::sync::Arc;

use actix_web::{middleware::from_fn, web};
use chassis::{ApiProblem, Lifecycle, auth, problem, server::Routes};
use durable::Database;
use resilience::Deadline;

use crate::Error;

/// What handlers need; one a process.
#[derive(Clone)]
pub struct Api {
    pub database: Database,
    pub lifecycle: Lifecycle,
}

impl Api {
    /// Runs `work` on the main runtime, where the pool's connections live, whether or not the client stays, and as long
    /// as there is time.
    async fn run<T: Send + 'static>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        match self.lifecycle.run(durable::within(deadline, work)).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(problem::internal().into()),
        }
    }
}

#[must_use]
pub fn routes(api: Api) -> Routes {
    let api = web::Data::new(api);
    Arc::new(move |config| {
        let scope = web::scope("/v1")
            .wrap(from_fn(auth::require_caller))
            .service(
                web::resource("/redemptions/{order_id}")
                    .put(redemptions::redeem)
                    .get(redemptions::show)
                    .default_service(problem::only("GET, PUT")),
            )
            .service(
                web::resource("/redemptions/{order_id}/commit")
                    .post(redemptions::commit)
                    .default_service(problem::only("POST")),
            )
            .service(
                web::resource("/redemptions/{order_id}/release")
                    .post(redemptions::release)
                    .default_service(problem::only("POST")),
            )
            .service(web::resource("/coupons/{code}").get(coupons::show).default_service(problem::only("GET")));
        let operator = web::scope("/v1/operator")
            .wrap(from_fn(auth::require_console))
            .service(web::resource("/compensations").get(compensations::list).default_service(problem::only("GET")));
        config.app_data(api.clone()).service(operator).service(scope);
    })
}
