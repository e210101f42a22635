//! What a coupon takes off a subtotal now.

use chrono::{DateTime, Utc};
use contracts::{
    Currency, Money,
    coupon::{Coupon, Discount},
    money::MoneyError,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoDiscount {
    #[error("it is not valid now")]
    NotValidNow,
    #[error("must be {0}")]
    OtherCurrency(Currency),
    #[error("is out of range")]
    OutOfRange,
}

/// In minor units of the subtotal. At least one of them is left to pay, since nobody can charge nothing; so the
/// discount of a tiny subtotal may be nothing as well.
pub fn discount(coupon: &Coupon, subtotal: Money, now: DateTime<Utc>) -> Result<i64, NoDiscount> {
    if now < coupon.valid_from || coupon.valid_until <= now {
        return Err(NoDiscount::NotValidNow);
    }
    let wanted = match coupon.discount {
        Discount::Percent { percent } => subtotal.percent(percent).map_err(|_| NoDiscount::OutOfRange)?,
        Discount::Fixed { amount_minor, currency } => Money::new(amount_minor, currency),
    };
    let left = subtotal.checked_sub(Money::new(1, subtotal.currency)).map_err(|_| NoDiscount::OutOfRange)?;
    match left.checked_sub(wanted) {
        Ok(rest) if rest.amount_minor >= 0 => Ok(wanted.amount_minor),
        Ok(_) => Ok(left.amount_minor),
        Err(MoneyError::CurrencyMismatch(_, asked)) => Err(NoDiscount::OtherCurrency(asked)),
        Err(MoneyError::Overflow) => Err(NoDiscount::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;

    fn coupon(discount: Discount) -> Coupon {
        Coupon {
            code: "C".to_owned(),
            discount,
            total_limit: None,
            per_user_limit: None,
            redeemed: 0,
            valid_from: DateTime::UNIX_EPOCH,
            valid_until: DateTime::UNIX_EPOCH + TimeDelta::hours(1),
        }
    }

    fn usd(amount_minor: i64) -> Money {
        Money::new(amount_minor, Currency::USD)
    }

    fn fixed(amount_minor: i64) -> Coupon {
        coupon(Discount::Fixed { amount_minor, currency: Currency::USD })
    }

    #[test]
    fn a_percentage_is_rounded_in_favour_of_the_shop() {
        let ten = coupon(Discount::Percent { percent: 10 });
        assert_eq!(discount(&ten, usd(1_999), DateTime::UNIX_EPOCH), Ok(199));
    }

    #[test]
    fn a_discount_leaves_at_least_one_minor_unit_to_pay() {
        let everything = coupon(Discount::Percent { percent: 100 });
        assert_eq!(discount(&everything, usd(1_000), DateTime::UNIX_EPOCH), Ok(999));
        assert_eq!(discount(&fixed(500), usd(500), DateTime::UNIX_EPOCH), Ok(499));
        assert_eq!(discount(&fixed(500), usd(501), DateTime::UNIX_EPOCH), Ok(500));
        assert_eq!(discount(&fixed(500), usd(1), DateTime::UNIX_EPOCH), Ok(0));
    }

    #[test]
    fn a_fixed_amount_is_taken_off_its_own_currency_alone() {
        let eur = Money::new(1_000, "EUR".parse().unwrap());
        assert_eq!(discount(&fixed(500), eur, DateTime::UNIX_EPOCH), Err(NoDiscount::OtherCurrency(Currency::USD)));
        assert_eq!(discount(&coupon(Discount::Percent { percent: 50 }), eur, DateTime::UNIX_EPOCH), Ok(500));
    }

    #[test]
    fn a_coupon_is_valid_from_its_first_instant_until_just_before_its_last() {
        let at = |millis| discount(&fixed(500), usd(1_000), DateTime::UNIX_EPOCH + TimeDelta::milliseconds(millis));
        assert_eq!(at(-1), Err(NoDiscount::NotValidNow));
        assert_eq!(at(0), Ok(500));
        assert_eq!(at(3_599_999), Ok(500));
        assert_eq!(at(3_600_000), Err(NoDiscount::NotValidNow));
    }

    proptest! {
        #[test]
        fn a_discount_is_never_negative_and_never_the_whole_subtotal(
            subtotal in 1..=i64::MAX,
            amount in 1..=i64::MAX,
            percent in 1u8..=100,
        ) {
            for coupon in [fixed(amount), coupon(Discount::Percent { percent })] {
                let taken = discount(&coupon, usd(subtotal), DateTime::UNIX_EPOCH).unwrap();
                prop_assert!((0..subtotal).contains(&taken));
            }
        }
    }
}
