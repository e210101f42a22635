//! What a redemption may become. The only place where that is decided; the workflow loads, asks, and saves.
//!
//! The same shape as a reservation of stock: order alone lets go, what was let go stays so, and a release that comes
//! first refuses the redemption that belongs to it.

use contracts::coupon::{
    RedeemCoupon,
    RedemptionState::{self, Committed, Held, Released, Returned},
};

/// A redemption with what it was asked for by; a tombstone has no content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub state: RedemptionState,
    pub content: Option<RedeemCoupon>,
    pub discount_minor: i64,
}

/// What order asks for.
#[derive(Debug, Clone, Copy)]
pub enum Command<'a> {
    Redeem(&'a RedeemCoupon),
    /// The order is paid.
    Commit,
    /// The order is dead.
    Release,
}

/// What to save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is so already, or can no longer become so.
    Stands,
    /// A first redemption, if the coupon allows it.
    Hold,
    /// A release that came first: nothing is held, and nothing ever will be.
    Bury,
    Move {
        to: RedemptionState,
        /// Whether somebody else can have this share of the coupon now.
        frees: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the redemption was released")]
    LetGo,
    #[error("another coupon, user or subtotal is held")]
    OtherContent,
    #[error("no coupon was ever redeemed")]
    NeverHeld,
}

/// `current` is the order's redemption, if it ever had one.
pub fn decide(current: Option<&Record>, command: Command<'_>) -> Result<Decision, Refusal> {
    let Some(current) = current else {
        return match command {
            // – → Held
            Command::Redeem(_) => Ok(Decision::Hold),
            // – → Released
            Command::Release => Ok(Decision::Bury),
            // Nothing was promised, so there is nothing to make good on.
            Command::Commit => Err(Refusal::NeverHeld),
        };
    };
    match (current.state, command) {
        // Held | Committed → same; the request was sent again
        (Held | Committed, Command::Redeem(wanted)) => {
            if current.content.as_ref() == Some(wanted) {
                Ok(Decision::Stands)
            } else {
                Err(Refusal::OtherContent)
            }
        }
        // Released | Returned → same
        (Released | Returned, Command::Redeem(_)) => Err(Refusal::LetGo),
        // Held → Committed
        (Held, Command::Commit) => Ok(Decision::Move { to: Committed, frees: false }),
        // Committed | Released | Returned → same
        (Committed | Released | Returned, Command::Commit) => Ok(Decision::Stands),
        // Held → Released
        (Held, Command::Release) => Ok(Decision::Move { to: Released, frees: true }),
        // Committed → Returned
        (Committed, Command::Release) => Ok(Decision::Move { to: Returned, frees: true }),
        // Released | Returned → same
        (Released | Returned, Command::Release) => Ok(Decision::Stands),
    }
}

#[cfg(test)]
mod tests {
    use contracts::{Currency, UserId};
    use proptest::prelude::*;

    use super::*;

    fn wanted() -> RedeemCoupon {
        RedeemCoupon {
            code: "C".to_owned(),
            user_id: UserId::from_uuid(uuid::Uuid::nil()),
            subtotal_minor: 1_000,
            currency: Currency::USD,
        }
    }

    fn record(state: RedemptionState) -> Record {
        Record { state, content: Some(wanted()), discount_minor: 100 }
    }

    #[test]
    fn other_content_for_the_same_order_is_refused() {
        let current = record(Held);
        let eur = "EUR".parse().unwrap();
        for other in [
            RedeemCoupon { code: "D".to_owned(), ..wanted() },
            RedeemCoupon { user_id: UserId::generate(), ..wanted() },
            RedeemCoupon { subtotal_minor: 999, ..wanted() },
            RedeemCoupon { currency: eur, ..wanted() },
        ] {
            assert_eq!(decide(Some(&current), Command::Redeem(&other)), Err(Refusal::OtherContent));
        }
        assert_eq!(decide(Some(&current), Command::Redeem(&wanted())), Ok(Decision::Stands));
    }

    #[test]
    fn nothing_follows_a_release_but_refusals() {
        let tombstone = Record { state: Released, content: None, discount_minor: 0 };
        for current in [tombstone, record(Released), record(Returned)] {
            assert_eq!(decide(Some(&current), Command::Redeem(&wanted())), Err(Refusal::LetGo));
            assert_eq!(decide(Some(&current), Command::Commit), Ok(Decision::Stands));
            assert_eq!(decide(Some(&current), Command::Release), Ok(Decision::Stands));
        }
    }

    proptest! {
        #[test]
        fn a_share_is_taken_once_and_given_back_at_most_once(steps in prop::collection::vec(0..3u8, 0..12)) {
            let wanted = wanted();
            let (mut current, mut taken): (Option<Record>, i64) = (None, 0);
            for step in steps {
                let command = match step {
                    0 => Command::Redeem(&wanted),
                    1 => Command::Commit,
                    _ => Command::Release,
                };
                let Ok(decision) = decide(current.as_ref(), command) else { continue };
                match decision {
                    Decision::Stands => {}
                    Decision::Hold => {
                        taken += 1;
                        current = Some(record(Held));
                    }
                    Decision::Bury => current = Some(Record { state: Released, content: None, discount_minor: 0 }),
                    Decision::Move { to, frees } => {
                        taken -= i64::from(frees);
                        current = Some(record(to));
                    }
                }
                let counted = current.as_ref().is_some_and(|r| matches!(r.state, Held | Committed));
                prop_assert_eq!(taken, i64::from(counted));
                prop_assert_eq!(decide(current.as_ref(), command), Ok(Decision::Stands));
            }
        }
    }
}
