//! No secret gets into an image, nor what is left of a build: the recipe allows none, and the layers of the image that was
//! built last hold none.
//!
//!     docker compose build && cargo test --release --workspace --test image -- --nocapture

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod layers;
mod recipe;

use std::{fs, path::Path};

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}
