//! The console's page in a browser: everything here is tests, `tests/browser`.
//!
//! A crate of its own, and what drives the browser is among its ordinary dependencies, so that building with and without
//! tests asks shared crates for the same features and compiles them once.
