//! The API: one file a resource.

pub mod openapi;
pub mod payments;

use actix_web::{middleware::from_fn, web};
use chassis::{Lifecycle, auth, problem};

use crate::workflow::Payments;

/// What the handlers need; made once and given to every worker.
#[derive(Clone)]
pub struct Api {
    pub lifecycle: Lifecycle,
    pub payments: Payments,
}

pub fn routes(config: &mut web::ServiceConfig, api: Api) {
    config.app_data(web::Data::new(api)).service(
        web::scope("/v1")
            .wrap(from_fn(auth::require_caller))
            .service(
                web::resource("/payments/{attempt_id}")
                    .put(payments::charge)
                    .get(payments::get)
                    .default_service(problem::only("GET, PUT")),
            )
            .service(
                web::resource("/payments/{attempt_id}/fence")
                    .post(payments::fence)
                    .default_service(problem::only("POST")),
            ),
    );
}
