//! `/v1/coupons/{code}`: a coupon, and how often it was redeemed.

use actix_web::{HttpResponse, web};
use chassis::{ApiProblem, RequestContext, extract::PathId};
use contracts::{coupon::Coupon, validate::Code};

use super::Api;
use crate::{Error, store::coupons};

#[utoipa::path(
    get, path = "/v1/coupons/{code}", tag = "coupons", params(("code" = String, Path)),
    responses((status = 200, body = Coupon), (status = 404, description = "`not-found`: there is no such coupon"))
)]
pub(super) async fn show(
    api: web::Data<Api>,
    context: RequestContext,
    code: PathId<Code>,
) -> Result<HttpResponse, ApiProblem> {
    let database = api.database.clone();
    let reading = async move {
        let mut tx = database.begin(context.deadline).await?;
        let found = coupons::find(&mut tx, code.0.as_str()).await?;
        found.map(|(coupon, _)| coupon).ok_or_else(|| Error::NoCoupon(code.0.as_str().to_owned()))
    };
    Ok(HttpResponse::Ok().json(api.run(context.deadline, reading).await?))
}
