//! Checks of request bodies that belong to no single field: collect all violations, not just the first.

use std::str::FromStr;

use crate::{FieldError, Money};

/// The longest SKU, coupon code or payment method.
pub const MAX_CODE_LEN: usize = 64;

/// Violations found so far. [`Violations::finish`] turns an empty collection into the parsed value.
#[derive(Debug, Default)]
pub struct Violations(Vec<FieldError>);

impl Violations {
    pub fn push(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError::new(field, detail));
    }

    /// Records a violation unless `holds`.
    pub fn require(&mut self, holds: bool, field: &str, detail: &str) {
        if !holds {
            self.push(field, detail);
        }
    }

    /// A short visible code without white space: SKU, coupon code, payment method, reference.
    pub fn code(&mut self, value: &str, field: &str) {
        self.require(is_code(value), field, "must be 1 to 64 visible ASCII characters");
    }

    /// An amount that is charged or discounted from.
    pub fn positive(&mut self, amount: Money, field: &str) {
        self.require(amount.amount_minor > 0, field, "must be greater than 0");
    }

    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// A code from outside a body: a path or a cursor. A text that is none names nothing, and is not asked for in a
/// database, which could not even store a NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code(String);

/// The text is no [`Code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a code is 1 to 64 visible ASCII characters")]
pub struct NotACode;

impl Code {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Code {
    type Err = NotACode;

    fn from_str(text: &str) -> Result<Self, NotACode> {
        if is_code(text) { Ok(Self(text.to_owned())) } else { Err(NotACode) }
    }
}

fn is_code(text: &str) -> bool {
    (1..=MAX_CODE_LEN).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// A request body that checks itself after it has been read. Violations become a 422 `validation-failed`.
pub trait Validate {
    fn validate(&self) -> Result<(), Vec<FieldError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_nul_and_overlong_text_are_no_code() {
        for bad in ["", " ", "TEA 1", "TEA\0", "t\u{e9}e", &"X".repeat(65)] {
            assert_eq!(bad.parse::<Code>(), Err(NotACode), "{bad:?}");
        }
        assert_eq!("TEA-1".parse::<Code>().unwrap().as_str(), "TEA-1");
    }
}
