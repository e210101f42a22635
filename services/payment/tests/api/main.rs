//! The payment service over HTTP.
