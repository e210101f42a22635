//! What a reservation may become. The only place where that is decided; the workflow loads, asks, and saves.
//!
//! Order alone lets go of a reservation: nothing here expires. And whatever was let go stays so, since a release can
//! overtake the reservation that it belongs to, and a commit that comes after it must not sell what was given back.

use contracts::{
    inventory::{
        Reservation,
        ReservationState::{self, Committed, Held, Released, Returned},
    },
    order::ItemRequest,
};

use super::Movement;

/// What order asks for.
#[derive(Debug, Clone, Copy)]
pub enum Command<'a> {
    Reserve(&'a [ItemRequest]),
    /// The order is paid.
    Commit,
    /// The order is dead.
    Release,
}

/// What to save, and what that does to the stock of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is so already, or can no longer become so.
    Stands,
    /// A first reservation.
    Hold,
    /// A release that came first: nothing is held, and nothing ever will be.
    Bury,
    Move {
        to: ReservationState,
        movement: Movement,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the reservation was released")]
    LetGo,
    #[error("other items are reserved")]
    OtherItems,
    #[error("nothing was ever reserved")]
    NeverReserved,
}

/// `current` is the order's reservation, if it ever had one.
pub fn decide(current: Option<&Reservation>, command: Command<'_>) -> Result<Decision, Refusal> {
    let Some(current) = current else {
        return match command {
            // – → Held
            Command::Reserve(_) => Ok(Decision::Hold),
            // – → Released
            Command::Release => Ok(Decision::Bury),
            // An order is confirmed only after its stock was held, and a row is never deleted.
            Command::Commit => Err(Refusal::NeverReserved),
        };
    };
    match (current.state, command) {
        // Held | Committed → same; the request was sent again
        (Held | Committed, Command::Reserve(items)) => {
            if same_items(current, items) {
                Ok(Decision::Stands)
            } else {
                Err(Refusal::OtherItems)
            }
        }
        // Released | Returned → same
        (Released | Returned, Command::Reserve(_)) => Err(Refusal::LetGo),
        // Held → Committed
        (Held, Command::Commit) => Ok(Decision::Move { to: Committed, movement: Movement::Sell }),
        // Committed | Released | Returned → same
        (Committed | Released | Returned, Command::Commit) => Ok(Decision::Stands),
        // Held → Released
        (Held, Command::Release) => Ok(Decision::Move { to: Released, movement: Movement::Free }),
        // Committed → Returned
        (Committed, Command::Release) => Ok(Decision::Move { to: Returned, movement: Movement::TakeBack }),
        // Released | Returned → same
        (Released | Returned, Command::Release) => Ok(Decision::Stands),
    }
}

/// The same units of the same products, in whatever order.
fn same_items(current: &Reservation, items: &[ItemRequest]) -> bool {
    let mut held: Vec<_> = current.items.iter().map(|item| (item.sku.as_str(), item.quantity)).collect();
    let mut wanted: Vec<_> = items.iter().map(|item| (item.sku.as_str(), item.quantity)).collect();
    held.sort_unstable();
    wanted.sort_unstable();
    held == wanted
}
