//! Waiting for the moment from which on nothing moves by itself any more.
//!
//! The looks are the invariants' own: quiet is when no event is under way (7), no order and no attempt stands in a
//! state that is no end (8), and no money is with the shop that payment is going to give back.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    Stores, World,
    invariants::{events, money, standing},
    report::Finding,
};

/// Between two looks, at least; a large world is looked at less often, so that looking does not hold it up.
const PAUSE: Duration = Duration::from_millis(200);

/// What became of waiting.
#[derive(Debug, Clone)]
pub struct Quiet {
    /// What still moved at the end.
    pub unquiet: Vec<Finding>,
    pub waited: Duration,
    /// The last look, which is the one to judge: whatever is resent later, to be sure, is not seen half-way.
    pub world: World,
}

/// Waits until nothing is under way, or `patience` is over. An error: the stores cannot be looked at.
pub async fn until_quiet(stores: &Stores, patience: Duration) -> anyhow::Result<Quiet> {
    let began = Instant::now();
    loop {
        let look = Instant::now();
        let mut world = stores.look().await?;
        let mut unquiet = under_way(&world);
        // Reading dead letters takes long; they matter only where an event seems to be late.
        if !unquiet.is_empty() && unquiet.len() == events::under_way(&world).len() {
            world.letters = stores.letters().await?;
            unquiet = under_way(&world);
        }
        if unquiet.is_empty() || began.elapsed() >= patience {
            return Ok(Quiet { unquiet, waited: began.elapsed(), world });
        }
        sleep(PAUSE.max(look.elapsed())).await;
    }
}

fn under_way(world: &World) -> Vec<Finding> {
    let mut found = standing::under_way(world);
    found.extend(money::under_way(world, &money::Books::of(world)));
    found.extend(events::under_way(world));
    found
}
