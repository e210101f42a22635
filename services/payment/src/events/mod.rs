//! What payment hears: from order, and its own notes to itself.

mod orders;
mod reconcile;

pub use orders::{GROUP, Orders};
pub use reconcile::Questions;

use contracts::{Event, event::EventData};
use events::HandleError;

/// What the event carries; one that cannot be read never will be.
fn decode<D: EventData>(event: &Event) -> Result<D, HandleError> {
    let refused = |reason: String| HandleError::Refused(format!("{}: {reason}", D::TYPE));
    match event.decode::<D>() {
        Some(Ok(data)) => Ok(data),
        Some(Err(error)) => Err(refused(error.to_string())),
        None => Err(refused(format!("the type is {}", event.kind))),
    }
}
