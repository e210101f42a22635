//! What the recoverer does with an order that its run left standing: the same loop, for nobody in particular.

use std::time::Duration;

use chassis::RequestContext;
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
        let id = OrderId::from_uuid(held.resource);
        let order = self.find(id, Deadline::after(RESUME_BUDGET)).await?;
        // What follows belongs to the trace of the request that placed the order.
        let trace = order.traceparent.as_deref().and_then(|text| text.parse::<TraceContext>().ok());
        let trace = trace.map_or_else(TraceContext::root, |placed| placed.child());
        let context = RequestContext::for_job("recover", trace, RESUME_BUDGET);
        Run { workflow: self, context: &context, held, runner: Runner::Recoverer }.drive(order).await
    }
}
