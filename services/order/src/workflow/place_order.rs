//! `POST /v1/orders`: claim the key, make or resume its order, and say what is known.

use chassis::{RequestContext, auth::User, crash_point};
use chrono::{SubsecRound, Utc};
use contracts::{
    Currency, OrderId, Problem,
    headers::IdempotencyKey,
    order::{HistoryEntry, OrderCouponState, OrderPaymentState, OrderStatus, PlaceOrder},
};
use durable::{
    idempotency::{self, Claim, Held, Scope},
    within,
};
use sha2::{Digest, Sha256};

use super::{
    Workflow,
    drive::{Run, Runner},
};
use crate::{
    domain::{Coupon, Line, Order, Payment, Price},
    error::Error,
    store::{history, orders},
};

/// How a request to place an order is answered.
#[derive(Debug)]
pub struct Answer {
    pub outcome: Result<Order, Box<Problem>>,
    /// The status of an outcome that is an order: 201 or 202.
    pub status: u16,
    /// Whether an earlier request with the same key did the work.
    pub replayed: bool,
}

impl Workflow {
    pub async fn place_order(
        &self,
        context: &RequestContext,
        user: &User,
        key: &IdempotencyKey,
        request: &PlaceOrder,
    ) -> Result<Answer, Error> {
        let scope = Scope { user: user.id.as_uuid(), method: "POST", path: "/v1/orders", key: key.as_str() };
        let (fingerprint, new_order) = (fingerprint(request), OrderId::generate().as_uuid());
        let claiming = async {
            let lease = self.rules.current().idempotency.lease;
            Ok::<_, Error>(idempotency::claim(self.database.pool(), scope, &fingerprint, new_order, lease).await?)
        };
        let claimed = within(context.deadline, claiming).await?;
        match claimed {
            Claim::Held(held) => {
                crash_point("order.key_claimed");
                self.run(context, user, held, request).await
            }
            Claim::InFlight { lease_left } => Err(Error::KeyInFlight { lease_left }),
            Claim::Reused => Err(Error::KeyReused),
            Claim::Done { resource, status } => {
                Ok(replay(self.find(OrderId::from_uuid(resource), context.deadline).await?, status))
            }
        }
    }

    async fn run(
        &self,
        context: &RequestContext,
        user: &User,
        held: Held,
        request: &PlaceOrder,
    ) -> Result<Answer, Error> {
        let id = OrderId::from_uuid(held.resource);
        let standing = match held.is_take_over() {
            true => self.find(id, context.deadline).await,
            false => Err(Error::OrderNotFound),
        };
        let order = match standing {
            Ok(standing) => standing,
            // A first run, or the take-over of one that died before it made the order.
            Err(Error::OrderNotFound) => within(context.deadline, self.create(context, user, held, request)).await?,
            Err(error) => return Err(error),
        };
        let run = Run { workflow: self, context, held, runner: Runner::Request };
        Ok(first_answer(run.drive(order).await?))
    }

    async fn create(
        &self,
        context: &RequestContext,
        user: &User,
        held: Held,
        request: &PlaceOrder,
    ) -> Result<Order, Error> {
        let mut order = submitted(context, user, OrderId::from_uuid(held.resource), request);
        // Never to be settled, unlike one that is pending: the client is told, and may use the coupon another time.
        if order.coupon.is_open() && self.coupon.is_left_out(context) {
            order.coupon.state = OrderCouponState::Rejected;
            order.degraded.push(self.coupon.switch().name().to_owned());
        }
        let mut tx = self.database.begin(context.deadline).await?;
        if !idempotency::still_held(&mut tx, held).await? {
            return Err(Error::FencedOff);
        }
        orders::insert(&mut tx, &order).await?;
        let entry = HistoryEntry {
            at: order.created_at,
            from: None,
            to: order.status,
            event: "submitted".to_owned(),
            detail: None,
        };
        history::insert(&mut tx, order.id, &entry).await?;
        tx.commit().await?;
        metrics::counter!("orders_entered_total", "status" => order.status.as_str()).increment(1);
        crash_point("order.created");
        Ok(order)
    }
}

/// The first state of an order: nothing is known of it but what was asked for.
fn submitted(context: &RequestContext, user: &User, id: OrderId, request: &PlaceOrder) -> Order {
    let now = Utc::now().trunc_subsecs(6);
    let line =
        |item: &contracts::order::ItemRequest| Line { sku: item.sku.clone(), quantity: item.quantity, named: None };
    Order {
        id,
        user_id: user.id,
        tenant: user.tenant.clone(),
        status: OrderStatus::Created,
        reason: None,
        version: 0,
        lines: request.items.iter().map(line).collect(),
        price: Price::unknown(Currency::USD),
        coupon: Coupon { code: request.coupon_code.clone(), state: OrderCouponState::None },
        payment_method: request.payment_method.clone(),
        payment: Payment { attempt_id: None, state: OrderPaymentState::None, channel: None, refunded_minor: 0 },
        cancel_requested: false,
        refunds: Vec::new(),
        degraded: Vec::new(),
        suggestions: Vec::new(),
        problem: None,
        traceparent: Some(context.trace.to_string()),
        created_at: now,
        updated_at: now,
    }
}

/// Of what was understood, so that white space and the order of members make no other request.
fn fingerprint(request: &PlaceOrder) -> idempotency::Fingerprint {
    // Strings and numbers; it always serializes.
    let canonical = serde_json::to_vec(request).unwrap_or_default();
    Sha256::digest(&canonical).into()
}

fn first_answer(order: Order) -> Answer {
    let status = if order.status == OrderStatus::Confirmed { 201 } else { 202 };
    let outcome = match order.problem.clone() {
        Some(problem) => Err(Box::new(problem)),
        None => Ok(order),
    };
    Answer { outcome, status, replayed: false }
}

/// An outcome that was a problem stays that problem. One that was an order is shown as the order is now: a client that
/// was told "pending" learns what became of it.
fn replay(order: Order, first_status: u16) -> Answer {
    let outcome = match order.problem.clone() {
        Some(problem) if first_status >= 400 => Err(Box::new(problem)),
        _ => Ok(order),
    };
    let status = match &outcome {
        Ok(order) if order.status == OrderStatus::Confirmed => 201,
        _ => first_status,
    };
    Answer { outcome, status, replayed: true }
}
