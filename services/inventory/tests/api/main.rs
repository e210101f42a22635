//! Inventory over HTTP.
