//! Whom the console watches.

/// An instance of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub service: String,
    pub instance: String,
    /// Of its admin port.
    pub url: String,
}
