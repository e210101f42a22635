//! `/v1/orders` and `/v1/products`: everybody's orders, as order shows them to the console, and one placed for a user.

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{
    ApiProblem, CallError, RequestContext,
    extract::{Body, PathId, path},
};
use contracts::{
    FieldError, OrderId, headers,
    headers::IdempotencyKey,
    order::{HistoryEntry, ItemRequest, OperatorOrder, Page, PlaceOrder, Product},
    validate::{Validate, Violations},
};
use reqwest::Method;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Api, on_main, operator::Operator, reason::note};
use crate::{Error, downstream::user_of, store::audit::Action};

/// What order answered to whom an order was placed for.
pub const ORDER_STATUS: &str = "x-order-status";
/// Who looks at the shop's window here.
const WINDOW_SHOPPER: &str = "console";

/// Everybody's orders, newest first.
#[utoipa::path(
    get, path = "/v1/orders", tag = "orders",
    params(
        ("status" = Option<String>, Query, description = "Those that stand there"),
        ("user_id" = Option<String>, Query, description = "Those of this user"),
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses((status = 200, body = Page<OperatorOrder>), (status = 400, description = "`invalid-request`: a bad query"))
)]
pub(super) async fn list(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
) -> Result<HttpResponse, ApiProblem> {
    // As it is: order knows what is wrong with it, and says so.
    ask::<Page<OperatorOrder>>(&api, context, format!("/v1/operator/orders?{}", request.query_string())).await
}

/// Any order.
#[utoipa::path(
    get, path = "/v1/orders/{order_id}", tag = "orders", params(("order_id" = OrderId, Path)),
    responses((status = 200, body = OperatorOrder), (status = 404, description = "`not-found`"))
)]
pub(super) async fn get(
    api: web::Data<Api>,
    context: RequestContext,
    id: PathId<OrderId>,
) -> Result<HttpResponse, ApiProblem> {
    ask::<OperatorOrder>(&api, context, format!("/v1/operator/orders/{}", id.0)).await
}

/// What happened to any order, oldest first.
#[utoipa::path(
    get, path = "/v1/orders/{order_id}/history", tag = "orders", params(("order_id" = OrderId, Path)),
    responses((status = 200, body = Vec<HistoryEntry>), (status = 404, description = "`not-found`"))
)]
pub(super) async fn history(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
) -> Result<HttpResponse, ApiProblem> {
    let id: OrderId = path(&request, "order_id")?;
    ask::<Vec<HistoryEntry>>(&api, context, format!("/v1/operator/orders/{id}/history")).await
}

async fn ask<T: DeserializeOwned + Serialize + Send + 'static>(
    api: &Api,
    context: RequestContext,
    path: String,
) -> Result<HttpResponse, ApiProblem> {
    let order = api.callees.order.clone();
    let asking = async move {
        let answer = order.get::<T>(&context, &path).await;
        answer.map(|answer| answer.body).map_err(|error| Error::Callee { callee: "order", error })
    };
    Ok(HttpResponse::Ok().json(on_main(api, asking).await?))
}

/// An order for somebody.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceFor {
    /// Whose it is to be: an id, or a name that always means the same one.
    #[schema(min_length = 1, max_length = 64)]
    user: String,
    #[schema(min_items = 1, max_items = 20)]
    items: Vec<ItemRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    coupon_code: Option<String>,
    #[schema(min_length = 1, max_length = 64)]
    payment_method: String,
}

impl Validate for PlaceFor {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        let is_name = (1..=64).contains(&self.user.chars().count()) && !self.user.contains(char::is_control);
        violations.require(is_name, "user", "must have 1 to 64 characters");
        let own = self.order().validate().err().unwrap_or_default();
        own.into_iter().for_each(|error| violations.push(error.field, error.detail));
        violations.finish()
    }
}

impl PlaceFor {
    fn order(&self) -> PlaceOrder {
        PlaceOrder {
            items: self.items.clone(),
            coupon_code: self.coupon_code.clone(),
            payment_method: self.payment_method.clone(),
        }
    }
}

/// Places an order as that user would, and passes on what order answers, whatever it is: `x-order-status` is its status,
/// and the body its body.
#[utoipa::path(
    post, path = "/v1/orders", tag = "orders", request_body = PlaceFor,
    params(("Idempotency-Key" = Option<String>, Header, description = "As order takes it; by default a new one")),
    responses((status = 200, description = "Order has answered.", body = Object)),
)]
pub(super) async fn place(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<PlaceFor>,
) -> Result<HttpResponse, ApiProblem> {
    let key = request.headers().get(headers::IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    let key = match key.map(IdempotencyKey::parse) {
        None => Uuid::now_v7().to_string(),
        Some(Ok(key)) => key.as_str().to_owned(),
        Some(Err(_)) => {
            let detail = "must be 1 to 255 visible ASCII characters, bare or quoted";
            return Err(Error::BadQuery { field: "idempotency-key", detail }.into());
        }
    };
    let placing = {
        let api = Api::clone(&api);
        async move {
            let target = format!("user {}", body.0.user);
            let action =
                Action { operator: &operator.name, action: "place_order", target: &target, reason: "the form" };
            note(&api, context.deadline, action).await?;
            let order = serde_json::to_value(body.0.order()).unwrap_or_default();
            // A bare key may hold what a quoted one has to escape, and the other way round it is the same.
            let headers = [(headers::IDEMPOTENCY_KEY, key.as_str())];
            let user = user_of(&body.0.user);
            api.callees.as_user(&context, user, (Method::POST, "/v1/orders"), Some(&order), &headers).await
        }
    };
    let (status, answer) = on_main(&api, placing).await?;
    Ok(HttpResponse::Ok().insert_header((ORDER_STATUS, status.to_string())).json(answer))
}

/// What the shop has, for the form.
#[utoipa::path(
    get, path = "/v1/products", tag = "orders",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, 20 by default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses((status = 200, body = Page<Product>), (status = 400, description = "`invalid-request`: a bad query"))
)]
pub(super) async fn products(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
) -> Result<HttpResponse, ApiProblem> {
    let (callees, path) = (api.callees.clone(), format!("/v1/products?{}", request.query_string()));
    let asking =
        async move { callees.as_user(&context, user_of(WINDOW_SHOPPER), (Method::GET, &path), None, &[]).await };
    let (status, answer) = on_main(&api, asking).await?;
    if status < 400 {
        return Ok(HttpResponse::Ok().json(answer));
    }
    Err(refused(status, answer).into())
}

/// A refusal that came as an answer.
fn refused(status: u16, answer: Value) -> Error {
    let problem = serde_json::from_value(answer).map(|problem| CallError::Refused(Box::new(problem)));
    let error = problem.unwrap_or_else(|_| CallError::Unknown(format!("{status} without a problem")));
    Error::Callee { callee: "order", error }
}
