//! What runs beside the requests.

pub mod pool_gauge;
