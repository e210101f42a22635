//! The console as an operator has it: its page in a browser, on the whole system as `./dev up --detach` starts it, with
//! links.
//!
//! `./dev test` starts the browser's driver, names a port base, and stops both afterwards, whatever happens here. All
//! waiting is for what the page shows.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod breaker;
mod browser;
mod console;
mod letters;
mod looks;
mod orders;
mod rules;
mod stale;
mod switches;
mod system;
