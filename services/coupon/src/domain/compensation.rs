//! What follows from a try to honour a discount that was promised.

use crate::Error;

use super::Refusal;

/// What is done about the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// waiting → honoured
    Honour { discount_minor: i64 },
    /// waiting → waiting; it may be had later.
    Again { reason: String },
    /// waiting → refused; a person decides what the customer gets.
    Refuse { reason: String },
    /// waiting → refused; the order died meanwhile, and is owed nothing.
    Drop { reason: String },
}

/// `tried` is the discount that was redeemed, or why none was; `last` whether there is no later try.
#[must_use]
pub fn judge(tried: Result<i64, Error>, last: bool) -> Verdict {
    let error = match tried {
        Ok(discount_minor) => return Verdict::Honour { discount_minor },
        Err(error) => error,
    };
    let reason = error.to_string();
    match error {
        Error::Redemption { refusal: Refusal::LetGo, .. } => Verdict::Drop { reason },
        // Shares may come back from orders that die, and whatever ails the storage passes.
        Error::Exhausted(_) | Error::AlreadyUsed(_) | Error::Conflict | Error::Storage(_) if !last => {
            Verdict::Again { reason }
        }
        _ => Verdict::Refuse { reason },
    }
}

#[cfg(test)]
mod tests {
    use contracts::OrderId;
    use durable::StorageError;

    use super::*;
    use crate::domain::NoDiscount;

    fn code() -> String {
        "C".to_owned()
    }

    #[test]
    fn what_may_pass_is_tried_again_until_the_last_time() {
        let passing = || {
            [
                Error::Exhausted(code()),
                Error::AlreadyUsed(code()),
                Error::Conflict,
                Error::Storage(StorageError::Unavailable(sqlx::Error::PoolTimedOut)),
            ]
        };
        for error in passing() {
            assert!(matches!(judge(Err(error), false), Verdict::Again { .. }));
        }
        for error in passing() {
            assert!(matches!(judge(Err(error), true), Verdict::Refuse { .. }));
        }
    }

    #[test]
    fn what_will_never_be_had_is_refused_at_once_and_a_dead_order_is_owed_nothing() {
        let order = OrderId::generate();
        for error in [
            Error::UnknownCode(code()),
            Error::NoDiscount { code: code(), reason: NoDiscount::NotValidNow },
            Error::Redemption { order, refusal: Refusal::OtherContent },
        ] {
            assert!(matches!(judge(Err(error), false), Verdict::Refuse { .. }));
        }
        let let_go = Error::Redemption { order, refusal: Refusal::LetGo };
        assert!(matches!(judge(Err(let_go), true), Verdict::Drop { .. }));
        assert_eq!(judge(Ok(7), true), Verdict::Honour { discount_minor: 7 });
    }
}
