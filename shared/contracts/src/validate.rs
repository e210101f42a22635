//! Checks of request bodies that belong to no single field: collect all violations, not just the first.

use crate::{FieldError, Money};

/// The longest SKU, coupon code or payment method.
pub const MAX_CODE_LEN: usize = 64;

/// Violations found so far. [`Violations::finish`] turns an empty collection into the parsed value.
#[derive(Debug, Default)]
pub struct Violations(Vec<FieldError>);

impl Violations {
    pub fn push(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), detail: detail.into() });
    }

    /// Records a violation unless `holds`.
    pub fn require(&mut self, holds: bool, field: &str, detail: &str) {
        if !holds {
            self.push(field, detail);
        }
    }

    /// A short visible code without white space: SKU, coupon code, payment method, reference.
    pub fn code(&mut self, value: &str, field: &str) {
        let visible = value.bytes().all(|b| b.is_ascii_graphic());
        self.require(
            visible && (1..=MAX_CODE_LEN).contains(&value.len()),
            field,
            "must be 1 to 64 visible ASCII characters",
        );
    }

    /// An amount that is charged or discounted from.
    pub fn positive(&mut self, amount: Money, field: &str) {
        self.require(amount.amount_minor > 0, field, "must be greater than 0");
    }

    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// A request body that checks itself after it has been read. Violations become a 422 `validation-failed`.
pub trait Validate {
    fn validate(&self) -> Result<(), Vec<FieldError>>;
}
