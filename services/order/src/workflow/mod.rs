//! The shell around `domain`: loads, decides, saves, and carries out what follows.
//!
//! [`place_order`] is what a request runs, [`resume`](resume) what the recoverer runs, and both run the same loop
//! ([`drive`]) over the same recovery points. Events from payment and coupon enter through [`apply`] as well, and so does
//! the user's wish to [`cancel`]. When an order has ended, [`walk`] looks after it until everybody has heard of it.

mod apply;
mod cancel;
mod crash_points;
mod drive;
mod emit;
mod place_order;
mod release;
mod resume;
mod walk;
mod watch;

use std::sync::Arc;

use contracts::OrderId;
use durable::{Database, outbox::Outbox, within};
use resilience::Deadline;
use rules::RulesHandle;

pub use apply::{Applied, ApplyError, Extras};
pub use crash_points::CRASH_POINTS;
pub use place_order::Answer;
pub use watch::Changes;

use crate::{
    domain::Order,
    downstream::{coupon::Coupon, inventory::Inventory, payment::Payment, recommendation::Recommendation},
    error::Error,
    store::orders,
};

/// Everything that an order passes through.
pub struct Workflow {
    pub database: Database,
    pub outbox: Outbox,
    pub inventory: Inventory,
    pub payment: Payment,
    pub coupon: Coupon,
    pub recommendation: Arc<Recommendation>,
    pub rules: RulesHandle,
    pub changes: Changes,
}

impl Workflow {
    /// The order as it is, if the database says so in time.
    pub async fn find(&self, id: OrderId, deadline: Deadline) -> Result<Order, Error> {
        let found = within(deadline, async { Ok::<_, Error>(orders::find(self.database.pool(), id).await?) }).await?;
        found.ok_or(Error::OrderNotFound)
    }
}
