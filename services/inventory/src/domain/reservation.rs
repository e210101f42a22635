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

#[cfg(test)]
mod tests {
    use contracts::{Currency, OrderId, order::OrderItem};
    use proptest::prelude::*;

    use super::*;

    fn request(sku: &str, quantity: i64) -> ItemRequest {
        ItemRequest { sku: sku.to_owned(), quantity }
    }

    fn reservation(state: ReservationState, items: &[ItemRequest]) -> Reservation {
        let line = |item: &ItemRequest| OrderItem {
            sku: item.sku.clone(),
            name: item.sku.clone(),
            quantity: item.quantity,
            unit_price_minor: 100,
        };
        let items = items.iter().map(line).collect();
        Reservation { order_id: OrderId::generate(), state, items, currency: Currency::USD }
    }

    /// What the shell makes of a decision.
    fn apply(current: Option<Reservation>, command: Command<'_>) -> Result<Option<Reservation>, Refusal> {
        let decision = decide(current.as_ref(), command)?;
        Ok(match (decision, command) {
            (Decision::Stands, _) => current,
            (Decision::Hold, Command::Reserve(items)) => Some(reservation(Held, items)),
            (Decision::Move { to, .. }, _) => current.map(|current| Reservation { state: to, ..current }),
            (Decision::Bury | Decision::Hold, _) => Some(reservation(Released, &[])),
        })
    }

    #[test]
    fn a_reservation_that_comes_after_the_release_of_its_order_is_refused() {
        let buried = apply(None, Command::Release).unwrap();
        assert_eq!(buried.as_ref().map(|r| r.state), Some(Released));
        assert_eq!(apply(buried, Command::Reserve(&[request("A", 1)])), Err(Refusal::LetGo));
    }

    #[test]
    fn a_commit_that_comes_after_the_release_sells_nothing() {
        for state in [Released, Returned] {
            let current = reservation(state, &[request("A", 1)]);
            assert_eq!(decide(Some(&current), Command::Commit), Ok(Decision::Stands), "{state:?}");
        }
    }

    #[test]
    fn an_order_that_never_reserved_cannot_be_committed() {
        assert_eq!(decide(None, Command::Commit), Err(Refusal::NeverReserved));
    }

    #[test]
    fn the_same_items_in_another_order_are_the_same_and_other_quantities_are_not() {
        let current = reservation(Held, &[request("A", 1), request("B", 2)]);
        let again = |items: &[ItemRequest]| decide(Some(&current), Command::Reserve(items));
        assert_eq!(again(&[request("B", 2), request("A", 1)]), Ok(Decision::Stands));
        assert_eq!(again(&[request("A", 1), request("B", 1)]), Err(Refusal::OtherItems));
        assert_eq!(again(&[request("A", 1)]), Err(Refusal::OtherItems));
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Reserve,
        Commit,
        Release,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        prop::collection::vec(prop_oneof![Just(Step::Reserve), Just(Step::Commit), Just(Step::Release)], 0..12)
    }

    proptest! {
        #[test]
        fn repeating_any_step_changes_nothing_and_what_was_let_go_stays_so(steps in steps()) {
            let items = [request("A", 3)];
            let mut current = None;
            for step in steps {
                let command = match step {
                    Step::Reserve => Command::Reserve(&items),
                    Step::Commit => Command::Commit,
                    Step::Release => Command::Release,
                };
                let let_go = current.as_ref().is_some_and(|r: &Reservation| matches!(r.state, Released | Returned));
                let before = current.clone();
                if let Ok(after) = apply(current.clone(), command) {
                    prop_assert_eq!(decide(after.as_ref(), command), Ok(Decision::Stands));
                    current = after;
                }
                if let_go {
                    prop_assert_eq!(&current, &before);
                }
            }
        }

        #[test]
        fn units_that_a_reservation_moved_are_where_its_state_says(steps in steps()) {
            use crate::domain::Level;
            let items = [request("A", 3)];
            let mut current: Option<Reservation> = None;
            let mut level = Level::delivered(10);
            for step in steps {
                let command = match step {
                    Step::Reserve => Command::Reserve(&items),
                    Step::Commit => Command::Commit,
                    Step::Release => Command::Release,
                };
                let movement = match decide(current.as_ref(), command) {
                    Ok(Decision::Hold) => Some(Movement::Reserve),
                    Ok(Decision::Move { movement, .. }) => Some(movement),
                    Ok(Decision::Stands | Decision::Bury) | Err(_) => None,
                };
                if let Some(movement) = movement {
                    level = level.moved(movement, 3).expect("a movement that the rules allow");
                }
                current = apply(current.clone(), command).unwrap_or(current);
                let (reserved, sold) = match current.as_ref().map(|r| r.state) {
                    Some(Held) => (3, 0),
                    Some(Committed) => (0, 3),
                    None | Some(Released | Returned) => (0, 0),
                };
                prop_assert_eq!(level, Level { on_hand: 10 - sold, reserved, sold, received: 10 });
            }
        }
    }
}
