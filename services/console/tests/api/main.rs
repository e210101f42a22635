//! The console over HTTP.

mod access;
mod desk;
