//! Why a configuration is refused: the field by its name in the document, and the reason in words.
//!
//! One type for all patterns, so that whoever validates a whole rule set can prefix the path and print the rest.

/// A field whose value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    pub field: &'static str,
    pub reason: &'static str,
}

/// Refuses with `reason` unless `holds`.
pub const fn require(holds: bool, field: &'static str, reason: &'static str) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err(Invalid { field, reason }) }
}
