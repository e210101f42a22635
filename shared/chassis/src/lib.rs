//! How every service starts, is observed and stops, and the one client for calls between services.
//!
//! Reading order: [`service`] (a process from start to end) · [`env`] (configuration) · [`lifecycle`] (who may still
//! run at shutdown) · [`server`] (the two listeners) · [`context`] (what travels with a request) · [`auth`] ·
//! [`guards`] (what a request passes before its handler) · [`extract`] (bodies, paths and queries that fail with problems)
//! · [`problem`] · [`downstream`] (outbound calls and the evidence that they leave) · [`signals`] (what follows from how
//! calls went) · [`degradation`] and [`degradable`] (what is served with less) · [`database`] ·
//! [`rules_file`], [`rules_console`] and the `rules_desk` between them · `alerts` · `browser` · [`admin`] ·
//! [`openapi`] · [`telemetry`] · `meters` (what each metric means) · [`collector`] (where spans go) · [`crash`] (where a
//! process may be made to die).

pub mod admin;
mod alerts;
pub mod auth;
mod browser;
pub mod collector;
pub mod context;
pub mod crash;
pub mod database;
pub mod degradable;
pub mod degradation;
pub mod dev_secrets;
pub mod downstream;
pub mod env;
pub mod extract;
pub mod guards;
mod hs256;
pub mod lifecycle;
mod meters;
pub mod openapi;
pub mod problem;
pub mod rules_console;
mod rules_desk;
pub mod rules_file;
mod rules_kept;
pub mod server;
pub mod service;
pub mod signals;
pub mod telemetry;

pub use context::RequestContext;
pub use crash::crash_point;
pub use degradable::Degradable;
pub use degradation::Degradation;
pub use downstream::{CallError, Downstream, NotSent};
pub use env::{ConfigError, Env};
pub use lifecycle::Lifecycle;
pub use problem::ApiProblem;
pub use service::{App, Wiring};
