//! What runs the services says the same as they do: alerts and the dashboard ask for metrics that there are, each alert is
//! tested and explained, and what Kubernetes is told fits the services and their databases.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod alerts;
mod dashboard;
mod exported;
mod kubernetes;
mod network;
mod yaml;

use std::path::{Path, PathBuf};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
