//! What the recoverer does with an order that its run left standing: the same loop, for nobody in particular.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use contracts::{OrderId, trace::TraceContext};
use durable::idempotency::Held;
use resilience::Deadline;

use super::{
    Workflow,
    drive::{Run, Runner},
};
use crate::{domain::Order, error::Error};

/// A resumed order makes at most a fence and a release.
const RESUME_BUDGET: Duration = Duration::from_secs(2);

impl Workflow {
    /// Brings the order to an end, or to the point from which only payment can move it.
    pub async fn resume(&self, held: Held) -> Result<Order, Error> {
        crash_point("order.taken_over");
        let id = OrderId::from_uuid(held.resource);
        let order = self.find(id, Deadline::after(RESUME_BUDGET)).await?;
        let context = for_job("recover", &order, RESUME_BUDGET);
        Run { workflow: self, context: &context, held, runner: Runner::Recoverer }.drive(order).await
    }

    /// Ends the wait of an order whose payment is open, if payment can say how.
    pub async fn fence_overdue(&self, id: OrderId) -> Result<Order, Error> {
        crash_point("order.overdue_claimed");
        let order = self.find(id, Deadline::after(RESUME_BUDGET)).await?;
        let context = for_job("recover", &order, RESUME_BUDGET);
        self.fence(&context, order).await
    }
}

/// What follows belongs to the trace of the request that placed the order.
pub(super) fn for_job(name: &'static str, order: &Order, budget: Duration) -> RequestContext {
    RequestContext::for_job(name, trace_of(order), budget)
}

pub(super) fn trace_of(order: &Order) -> Option<TraceContext> {
    order.traceparent.as_deref()?.parse().ok()
}
