//! Whom the console watches.

/// An instance of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub service: String,
    pub instance: String,
    /// Of its admin port.
    pub url: String,
}

/// All instances of a service, where they come and go: every address that a name has is one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub service: String,
    /// As a resolver takes it: `order-instances:9080`. The port is the admin port.
    pub host: String,
}

/// Both kinds; a service is of one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Targets {
    pub fixed: Vec<Target>,
    pub groups: Vec<Group>,
}

impl Targets {
    #[must_use]
    pub fn has(&self, service: &str) -> bool {
        self.fixed.iter().any(|known| known.service == service)
            || self.groups.iter().any(|known| known.service == service)
    }
}
