//! Letting stock go by a call, so that a retry does not meet what is held for itself. The events that follow make sure.

use std::time::Duration;

use chassis::{RequestContext, crash_point};
use contracts::{OrderId, order::OrderStatus, trace::TraceContext};
use durable::StorageError;
use futures_util::future::join_all;
use resilience::Deadline;

use super::{Workflow, resume::trace_of};
use crate::{domain::Order, store::walks};

/// For one release, with its tries.
const BUDGET: Duration = Duration::from_millis(200);
/// To look for what is in the way.
const LOOK_BUDGET: Duration = Duration::from_millis(200);
/// Released at once. Whoever has more in the way has been trying for a while, and may try again.
const AT_ONCE: usize = 8;

/// What became of what was held for earlier orders of the same user.
pub(super) enum OwnHolds {
    None,
    LetGo,
    /// Some may be held yet.
    Unknown,
}

impl Workflow {
    /// A refusal that invites a retry: the retry must not meet this order's own hold. After the commit and not before,
    /// since an order whose stock is gone must not live on if this process dies in between.
    pub async fn release_before_retry(&self, order: &Order) {
        if order.status == OrderStatus::Rejected && order.problem.as_ref().is_some_and(|problem| problem.retryable) {
            self.release(order.id, trace_of(order)).await;
            crash_point("order.stock_released");
        }
    }

    /// Where the release before an earlier refusal failed, or its process died before it, it is done now.
    pub(super) async fn let_own_holds_go(&self, order: &Order) -> OwnHolds {
        let looking = durable::within(Deadline::after(LOOK_BUDGET), async {
            Ok::<_, StorageError>(walks::holds_in_the_way(self.database.pool(), order, AT_ONCE as i64 + 1).await?)
        });
        let held = match looking.await {
            Ok(held) if held.is_empty() => return OwnHolds::None,
            Ok(held) if held.len() <= AT_ONCE => held,
            Ok(_) => return OwnHolds::Unknown,
            Err(error) => {
                tracing::warn!(order_id = %order.id, %error, "earlier holds cannot be looked up");
                return OwnHolds::Unknown;
            }
        };
        let released = join_all(held.into_iter().map(|id| self.release(id, None))).await;
        if released.into_iter().all(|released| released) { OwnHolds::LetGo } else { OwnHolds::Unknown }
    }

    async fn release(&self, order: OrderId, trace: Option<TraceContext>) -> bool {
        let released = self.inventory.release(&RequestContext::for_job("release", trace, BUDGET), order).await;
        if released && let Err(error) = walks::stock_released(self.database.pool(), order).await {
            // The walk over ended orders finds it out as well.
            tracing::info!(order_id = %order, %error, "that stock was released is not recorded");
        }
        released
    }
}
