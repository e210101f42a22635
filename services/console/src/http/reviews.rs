//! `/v1/reviews`: what waits for a person: payments, refunds and coupons.

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{
    ApiProblem, Downstream, RequestContext,
    extract::{Body, path},
};
use chrono::{DateTime, Utc};
use contracts::{
    AttemptId, Currency, OrderId, RefundId, UserId,
    coupon::ManualCompensation,
    order::Page,
    payment::{Channel, PaymentReview, PaymentStatus, RefundReview},
};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Api, on_main,
    operator::Operator,
    reason::{Reason, note},
};
use crate::{Error, store::audit::Action};

/// Of each kind: as many as anybody reads, oldest first.
const SHOWN: &str = "limit=100";

/// One of any kind.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Review {
    kind: ReviewKind,
    /// Of the attempt, of the refund, or of the order whose discount it is.
    id: Uuid,
    attempt_id: Option<AttemptId>,
    refund_id: Option<RefundId>,
    /// `null` of a refund of a charge that was one too many, which no order knows of.
    order_id: Option<OrderId>,
    /// What was to be charged, or is owed; of a discount, what it was to be taken off.
    amount_minor: i64,
    currency: Currency,
    channel: Option<Channel>,
    since: DateTime<Utc>,
    /// What came of it last, or why it was refused.
    last_answer: String,
    /// When the provider is asked again in any case, or is sent the refund again.
    asked_again_at: Option<DateTime<Utc>>,
    coupon_code: Option<String>,
    user_id: Option<UserId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReviewKind {
    Payment,
    Refund,
    Coupon,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Reviews {
    items: Vec<Review>,
    /// Whose are missing, since the service gave no answer.
    unavailable: Vec<&'static str>,
}

/// Everything that waits, oldest first.
#[utoipa::path(get, path = "/v1/reviews", tag = "reviews", responses((status = 200, body = Reviews)))]
pub(super) async fn list(api: web::Data<Api>, context: RequestContext) -> Result<HttpResponse, ApiProblem> {
    let callees = api.callees.clone();
    let asking = async move {
        let (payments, refunds, coupons) = tokio::join!(
            of::<PaymentReview>(&callees.payment, &context, "/v1/operator/reviews"),
            of::<RefundReview>(&callees.payment, &context, "/v1/operator/refund-reviews"),
            of::<ManualCompensation>(&callees.coupon, &context, "/v1/operator/compensations"),
        );
        let mut unavailable = Vec::new();
        let mut items: Vec<Review> = Vec::new();
        if payments.is_none() || refunds.is_none() {
            unavailable.push("payment");
        }
        items.extend(payments.into_iter().flatten().map(payment));
        items.extend(refunds.into_iter().flatten().map(refund));
        if coupons.is_none() {
            unavailable.push("coupon");
        }
        items.extend(coupons.into_iter().flatten().map(coupon));
        items.sort_by_key(|review| review.since);
        Ok(Reviews { items, unavailable })
    };
    Ok(HttpResponse::Ok().json(on_main(&api, asking).await?))
}

/// What a service has to show; nothing is kept from an operator because the other one is away.
async fn of<T: DeserializeOwned>(callee: &Downstream, context: &RequestContext, path: &str) -> Option<Vec<T>> {
    match callee.get::<Page<T>>(context, &format!("{path}?{SHOWN}")).await {
        Ok(answer) => Some(answer.body.items),
        Err(error) => {
            tracing::info!(callee = callee.name(), %error, "what waits there is not known");
            None
        }
    }
}

fn payment(review: PaymentReview) -> Review {
    Review {
        kind: ReviewKind::Payment,
        id: review.attempt_id.as_uuid(),
        attempt_id: Some(review.attempt_id),
        refund_id: None,
        order_id: Some(review.order_id),
        amount_minor: review.amount_minor,
        currency: review.currency,
        channel: review.channel,
        since: review.since,
        last_answer: review.last_answer,
        asked_again_at: review.asked_again_at,
        coupon_code: None,
        user_id: None,
    }
}

fn refund(review: RefundReview) -> Review {
    let times = if review.sends == 1 { "once".to_owned() } else { format!("{} times", review.sends) };
    Review {
        kind: ReviewKind::Refund,
        id: review.refund_id.as_uuid(),
        attempt_id: review.attempt_id,
        refund_id: Some(review.refund_id),
        order_id: review.order_id,
        amount_minor: review.amount_minor,
        currency: review.currency,
        channel: Some(review.channel),
        since: review.since,
        last_answer: format!("refused, sent {times}: of {}, {}", review.provider_ref, review.reason),
        asked_again_at: Some(review.sent_again_at),
        coupon_code: None,
        user_id: None,
    }
}

fn coupon(manual: ManualCompensation) -> Review {
    Review {
        kind: ReviewKind::Coupon,
        id: manual.order_id.as_uuid(),
        attempt_id: None,
        refund_id: None,
        order_id: Some(manual.order_id),
        amount_minor: manual.subtotal_minor,
        currency: manual.currency,
        channel: None,
        since: manual.since,
        last_answer: manual.reason,
        asked_again_at: None,
        coupon_code: Some(manual.code),
        user_id: Some(manual.user_id),
    }
}

/// Has the provider asked now what became of a payment. A discount is tried again by sending its dead letter again.
#[utoipa::path(
    post, path = "/v1/reviews/{review}/ask", tag = "reviews", params(("review" = AttemptId, Path)),
    request_body = Reason,
    responses(
        (status = 200, description = "The attempt as it is; `review` or `unknown`: the provider is being asked.", body = PaymentStatus),
        (status = 404, description = "`not-found`: there is no such payment"),
    )
)]
pub(super) async fn ask(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<Reason>,
) -> Result<HttpResponse, ApiProblem> {
    let id: AttemptId = path(&request, "review")?;
    let asking = {
        let api = Api::clone(&api);
        async move {
            let target = format!("attempt {id}");
            let action =
                Action { operator: &operator.name, action: "ask", target: &target, reason: body.0.reason.trim() };
            note(&api, context.deadline, action).await?;
            let path = format!("/v1/operator/reviews/{id}/ask");
            let asked = api.callees.payment.call::<(), PaymentStatus>(&context, Method::POST, &path, None, &[]).await;
            asked.map(|answer| answer.body).map_err(|error| Error::Callee { callee: "payment", error })
        }
    };
    Ok(HttpResponse::Ok().json(on_main(&api, asking).await?))
}
