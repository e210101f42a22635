//! The console over HTTP, on a database of its own.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them as they may themselves")]

mod access;
mod desk;
mod faults;
mod letters;
mod live;
mod orders;
mod page;
mod process;
mod reviews;
mod session;
mod switches;
mod versions;
