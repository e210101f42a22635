//! The public API: extract, run on the main runtime, render.

mod admission;
mod cancel;
pub mod openapi;
mod operator;
mod orders;
mod page;
mod products;
mod render;

use std::sync::Arc;

use actix_web::{middleware::from_fn, web};
use chassis::{Degradable, Lifecycle, auth, problem};

use crate::{downstream::products::Products, workflow::Workflow};

/// Made once, shared by every worker.
#[derive(Clone)]
pub struct Api {
    pub workflow: Arc<Workflow>,
    pub products: Arc<Products>,
    pub admission: Degradable,
    pub lifecycle: Lifecycle,
}

pub fn routes(api: &Api, config: &mut web::ServiceConfig) {
    // Before the users' scope, whose beginning it shares.
    config.service(
        web::scope("/v1/operator")
            .wrap(from_fn(auth::require_console))
            .app_data(web::Data::new(api.clone()))
            .service(web::resource("/orders").get(operator::list).default_service(problem::only("GET")))
            .service(web::resource("/orders/{order_id}").get(operator::get).default_service(problem::only("GET")))
            .service(
                web::resource("/orders/{order_id}/history")
                    .get(operator::history)
                    .default_service(problem::only("GET")),
            )
            .default_service(web::to(problem::unknown_path)),
    );
    config.service(
        web::scope("/v1")
            .wrap(from_fn(auth::require_user))
            .app_data(web::Data::new(api.clone()))
            .service(
                web::resource("/orders")
                    .get(orders::list)
                    .post(orders::place)
                    .default_service(problem::only("GET, POST")),
            )
            .service(web::resource("/orders/{order_id}").get(orders::get).default_service(problem::only("GET")))
            .service(
                web::resource("/orders/{order_id}/history").get(orders::history).default_service(problem::only("GET")),
            )
            .service(
                web::resource("/orders/{order_id}/cancel").post(cancel::cancel).default_service(problem::only("POST")),
            )
            .service(web::resource("/products").get(products::list).default_service(problem::only("GET")))
            .service(web::resource("/products/{sku}").get(products::get).default_service(problem::only("GET")))
            .default_service(web::to(problem::unknown_path)),
    );
}

/// Items of one page unless asked otherwise, and at most.
const DEFAULT_LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 100;

/// `limit` of a list.
fn limit(asked: Option<i64>) -> Result<i64, crate::error::Error> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(crate::error::Error::BadParameter("limit", "must be 1 to 100")),
    }
}
