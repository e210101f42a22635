//! Inventory over HTTP, on a database of its own and, where events matter, on a broker.

mod concurrency;
mod guards;
mod model;
mod orders;
mod reservations;
mod shop;
mod stock;
