//! Recommendation over HTTP.
