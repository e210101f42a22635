//! The API: one file a resource.

pub mod openapi;
pub mod payments;
pub mod refunds;
pub mod reviews;
pub mod signature;
pub mod webhooks;

use std::sync::Arc;

use actix_web::{middleware::from_fn, web};
use chassis::{Lifecycle, auth, problem};

use crate::workflow::Payments;
use signature::Secrets;

/// What the handlers need; made once and given to every worker.
#[derive(Clone)]
pub struct Api {
    pub lifecycle: Lifecycle,
    pub payments: Payments,
    pub webhook_secrets: Arc<Secrets>,
}

pub fn routes(config: &mut web::ServiceConfig, api: Api) {
    config
        .app_data(web::Data::new(api))
        // Not a caller of ours: it shows a signature over the body instead of a token.
        .service(
            web::scope("/v1/webhooks")
                .wrap(from_fn(auth::accept_sender))
                .service(web::resource("/provider").post(webhooks::provider).default_service(problem::only("POST"))),
        )
        .service(
            web::scope("/v1/operator")
                .wrap(from_fn(auth::require_console))
                .service(web::resource("/reviews").get(reviews::list).default_service(problem::only("GET")))
                .service(web::resource("/refund-reviews").get(reviews::refunds).default_service(problem::only("GET")))
                .service(
                    web::resource("/reviews/{attempt_id}/ask")
                        .post(reviews::ask)
                        .default_service(problem::only("POST")),
                ),
        )
        .service(
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
                )
                .service(
                    web::resource("/payments/{attempt_id}/refunds")
                        .post(refunds::request)
                        .default_service(problem::only("POST")),
                ),
        );
}
