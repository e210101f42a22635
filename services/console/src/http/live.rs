//! `/v1/live` and `/v1/events`: the system as it is now, and as it goes on.

use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};
use chassis::ApiProblem;

use super::{Api, operator::Current};
use crate::{Error, domain::live::Snapshot};

/// The latest snapshot.
#[utoipa::path(get, path = "/v1/live", tag = "live", responses((status = 200, body = Snapshot)))]
pub(super) async fn show(api: web::Data<Api>) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(api.live.latest().json.clone())
}

/// Every snapshot from now on, one a second, as server-sent events: `event: snapshot`, `id` a number that rises, `data` as
/// `/v1/live` answers. Ends after some minutes, with the session, and for a reader that is too slow.
#[utoipa::path(
    get, path = "/v1/events", tag = "live",
    responses(
        (status = 200, description = "A stream", body = String, content_type = "text/event-stream"),
        (status = 503, description = "`overloaded`: as many listen as may"),
    )
)]
pub(super) async fn events(request: HttpRequest, api: web::Data<Api>) -> Result<HttpResponse, ApiProblem> {
    let session = request.extensions().get::<Current>().map(|current| current.id.hash());
    let subscription = api.live.listen(session).ok_or(Error::TooManyListeners)?;
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        // Whoever passes it on must not wait for more of it.
        .insert_header(("x-accel-buffering", "no"))
        .streaming(subscription.into_stream()))
}
