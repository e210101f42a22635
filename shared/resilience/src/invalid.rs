//! Why a configuration is refused: the field by its path in the document, and the reason in words.
//!
//! One type for all patterns, so that whoever validates a whole rule set puts the rest of the path before it.

/// A configuration that cannot come into force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    pub field: String,
    pub reason: String,
}

impl Invalid {
    pub fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: field.to_owned(), reason: reason.into() }
    }

    /// The same refusal, seen from one level further out.
    #[must_use]
    pub fn within(mut self, path: &str) -> Self {
        self.field = format!("{path}.{}", self.field);
        self
    }
}

/// Refuses with `reason` unless `holds`.
pub fn require(holds: bool, field: &str, reason: &str) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err(Invalid::new(field, reason)) }
}
