//! The wiring that is the console's own.

use chassis::{ConfigError, Env};
use contracts::Service;

#[derive(Debug, Clone)]
pub struct Config {
    /// `DATABASE_URL`: the console's own database; by default the one that a local system has.
    pub database_url: String,
}

impl Config {
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        Ok(Self { database_url: env.database_url(Service::Console)? })
    }
}
