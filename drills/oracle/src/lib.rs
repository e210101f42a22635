//! The oracle: what no failure may break, checked on what the system left behind.
//!
//! It asks no service. The databases say what the system believes, the provider's ledgers what really happened to the
//! money, and the log of answers what clients were told; the three have to agree once nothing moves by itself any more.
//! What a person has to decide (attempts in review, promised discounts that could not be honoured, dead letters) is
//! nobody's error: it is listed apart.
//!
//! Reading order: [`sources`] (where to look) → [`world`] (what is there) → [`invariants`] (pure functions of it, one
//! file a subject) → [`report`] (in figures); [`quiet`] waits for the moment from which on the invariants hold, and
//! [`answers`] is the log of what clients were told.

pub mod answers;
pub mod invariants;
pub mod quiet;
pub mod report;
pub mod sources;
pub mod world;

pub use answers::{Answer, AnswerLog};
pub use quiet::{Quiet, until_quiet};
pub use report::{Report, Verdict};
pub use sources::{Sources, Stores};
pub use world::World;

use std::time::Duration;

/// Waits until the system is quiet, but no longer than `patience`, and judges what it then left behind. An error: it
/// could not be looked at.
pub async fn consult(sources: &Sources, answers: Vec<Answer>, patience: Duration) -> anyhow::Result<Report> {
    let stores = Stores::open(sources).await?;
    let Quiet { unquiet, waited, world } = until_quiet(&stores, patience).await?;
    let world = World { answers, letters: stores.letters().await?, ..world };
    stores.close().await;
    Ok(Report { unquiet, waited, invariants: invariants::judge(&world) })
}
