//! The API: extract, hand over to the workflow on the main runtime, render.

pub mod openapi;
mod recommendations;

use std::sync::Arc;

use actix_web::{middleware::from_fn, web};
use chassis::{Lifecycle, auth, problem, server::Routes};

use crate::workflow::Recommender;

/// What handlers need; one a process.
#[derive(Clone)]
pub struct Api {
    pub recommender: Arc<Recommender>,
    pub lifecycle: Lifecycle,
}

#[must_use]
pub fn routes(api: Api) -> Routes {
    let api = web::Data::new(api);
    Arc::new(move |config| {
        let scope = web::scope("/v1").wrap(from_fn(auth::require_caller)).service(
            web::resource("/recommendations").get(recommendations::list).default_service(problem::only("GET")),
        );
        config.app_data(api.clone()).service(scope);
    })
}
