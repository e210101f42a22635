//! Looking after orders that have ended: has what they told taken effect?
//!
//! Inventory and coupon are asked what they hold for the order, which is the only acknowledgement that no broker can
//! lose. What has not taken effect is told again; it is idempotent by order, and refunds are by their id.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use chrono::{SubsecRound, Utc};
use durable::within;
use resilience::Deadline;
use rules::Criticality;

use super::{Workflow, emit::emit, resume::for_job};
use crate::{
    domain::{Acknowledged, Order, outstanding},
    error::Error,
    store::{
        orders,
        walks::{self, Ended},
    },
};

/// Two look-ups and one short transaction.
const BUDGET: Duration = Duration::from_secs(2);

/// What a sibling has shown; `None`: it gave no answer, and nothing is told to it again for that.
#[derive(Debug, Clone, Copy)]
struct Seen {
    stock: Option<bool>,
    coupon: Option<bool>,
}

impl Workflow {
    /// Looks after one order. True: it has nothing more to tell.
    pub async fn walk(&self, ended: Ended) -> Result<bool, Error> {
        crash_point("order.walk_begun");
        let order = self.find(ended.id, Deadline::after(BUDGET)).await?;
        // It can wait: under pressure the siblings serve those who cannot.
        let context = RequestContext { criticality: Criticality::Sheddable, ..for_job("walk", &order, BUDGET) };
        let seen = self.look(&context, &order, ended.acknowledged).await;
        crash_point("order.walk_looked");
        let done = within(Deadline::after(BUDGET), self.tell_again(&order, seen)).await?;
        self.outbox.wake();
        Ok(done)
    }

    async fn look(&self, context: &RequestContext, order: &Order, known: Acknowledged) -> Seen {
        let stock = async { if known.stock { Some(true) } else { self.inventory.has_settled(context, order).await } };
        let coupon = async {
            let nothing_to_see = known.coupon || !order.has_coupon_to_settle();
            if nothing_to_see { Some(true) } else { self.coupon.has_settled(context, order).await }
        };
        let (stock, coupon) = tokio::join!(stock, coupon);
        Seen { stock, coupon }
    }

    async fn tell_again(&self, looked_at: &Order, seen: Seen) -> Result<bool, Error> {
        let mut tx = self.database.begin(Deadline::after(BUDGET)).await?;
        let mut order = orders::lock(&mut tx, looked_at.id).await?.ok_or(Error::OrderNotFound)?;
        // It has told something new meanwhile, to which no answer has been seen yet.
        if order.version != looked_at.version {
            return Ok(false);
        }
        let acknowledged = Acknowledged { stock: seen.stock == Some(true), coupon: seen.coupon == Some(true) };
        let done = outstanding(&order, acknowledged).is_empty();
        let unheard = Acknowledged { stock: seen.stock != Some(false), coupon: seen.coupon != Some(false) };
        for effect in outstanding(&order, unheard) {
            tracing::warn!(order_id = %order.id, ?effect, "told again: it has not been seen to take effect");
            metrics::counter!("orders_told_again_total", "effect" => effect.name()).increment(1);
            emit(&mut tx, &mut order, effect, Utc::now().trunc_subsecs(6)).await?;
        }
        walks::acknowledge(&mut tx, &order, acknowledged, done).await?;
        crash_point("order.walk_written");
        tx.commit().await?;
        Ok(done)
    }
}
