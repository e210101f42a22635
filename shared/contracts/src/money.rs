//! Money: whole minor units and a currency. Never floating point, and no arithmetic that can wrap.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{PartialSchema, ToSchema, openapi};

/// Why two amounts could not be combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("amounts of {0} and {1} do not combine")]
    CurrencyMismatch(Currency, Currency),
    #[error("the amount is out of range")]
    Overflow,
}

/// An ISO 4217 code, three upper-case letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

impl Currency {
    pub const USD: Self = Self(*b"USD");

    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only ASCII letters get in, so the fallback is never taken.
        std::str::from_utf8(&self.0).unwrap_or("???")
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not three upper-case letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a currency is three upper-case letters")]
pub struct NotACurrency;

impl FromStr for Currency {
    type Err = NotACurrency;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match <[u8; 3]>::try_from(text.as_bytes()) {
            Ok(code) if code.iter().all(u8::is_ascii_uppercase) => Ok(Self(code)),
            _ => Err(NotACurrency),
        }
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for Currency {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        openapi::ObjectBuilder::new()
            .schema_type(openapi::schema::Type::String)
            .pattern(Some("^[A-Z]{3}$"))
            .examples(["USD"])
            .into()
    }
}

impl ToSchema for Currency {}

/// An amount in minor units (cents) of one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Money {
    pub amount_minor: i64,
    pub currency: Currency,
}

impl Money {
    #[must_use]
    pub const fn new(amount_minor: i64, currency: Currency) -> Self {
        Self { amount_minor, currency }
    }

    #[must_use]
    pub const fn zero(currency: Currency) -> Self {
        Self::new(0, currency)
    }

    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        self.combine(other, i64::checked_add)
    }

    pub fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        self.combine(other, i64::checked_sub)
    }

    pub fn checked_mul(self, factor: i64) -> Result<Self, MoneyError> {
        let amount_minor = self.amount_minor.checked_mul(factor).ok_or(MoneyError::Overflow)?;
        Ok(Self { amount_minor, ..self })
    }

    /// `percent` hundredths of the amount, rounded towards zero: a discount never exceeds what was promised.
    pub fn percent(self, percent: u8) -> Result<Self, MoneyError> {
        let wide = i128::from(self.amount_minor) * i128::from(percent) / 100;
        let amount_minor = i64::try_from(wide).map_err(|_| MoneyError::Overflow)?;
        Ok(Self { amount_minor, ..self })
    }

    fn combine(self, other: Self, op: fn(i64, i64) -> Option<i64>) -> Result<Self, MoneyError> {
        if self.currency != other.currency {
            return Err(MoneyError::CurrencyMismatch(self.currency, other.currency));
        }
        let amount_minor = op(self.amount_minor, other.amount_minor).ok_or(MoneyError::Overflow)?;
        Ok(Self { amount_minor, ..self })
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} minor", self.amount_minor, self.currency)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usd(amount_minor: i64) -> Money {
        Money::new(amount_minor, Currency::USD)
    }

    #[test]
    fn amounts_of_two_currencies_do_not_combine() {
        let eur = Money::new(1, "EUR".parse().unwrap());
        assert_eq!(usd(1).checked_add(eur), Err(MoneyError::CurrencyMismatch(Currency::USD, eur.currency)));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_an_error_and_never_wraps() {
        assert_eq!(usd(i64::MAX).checked_add(usd(1)), Err(MoneyError::Overflow));
        assert_eq!(usd(i64::MIN).checked_sub(usd(1)), Err(MoneyError::Overflow));
        assert_eq!(usd(i64::MAX).checked_mul(2), Err(MoneyError::Overflow));
    }

    #[test]
    fn a_currency_is_three_upper_case_letters() {
        for bad in ["", "US", "usd", "USDT", "U$D", "ÄÖ"] {
            assert_eq!(bad.parse::<Currency>(), Err(NotACurrency), "{bad}");
        }
        assert_eq!(serde_json::to_string(&Currency::USD).unwrap(), "\"USD\"");
    }

    proptest! {
        #[test]
        fn a_percentage_lies_between_zero_and_the_amount(amount in 0..i64::MAX, percent in 0u8..=100) {
            let part = usd(amount).percent(percent).unwrap().amount_minor;
            prop_assert!((0..=amount).contains(&part));
        }

        #[test]
        fn adding_and_subtracting_again_gives_the_amount_back(a in any::<i64>(), b in any::<i64>()) {
            if let Ok(sum) = usd(a).checked_add(usd(b)) {
                prop_assert_eq!(sum.checked_sub(usd(b)), Ok(usd(a)));
            }
        }
    }
}
