//! What other services say that concerns coupons, and coupon's own notes to itself.

mod compensations;
mod orders;

pub use compensations::{COMPENSATION_GROUP, Compensations};
pub use orders::{GROUP, Orders};

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
