//! The whole system as a newcomer starts it: `./dev up --detach`, orders over HTTP, processes that are killed.
//!
//! `./dev test` names the port base and stops the system afterwards, whatever happens here. The module's name is what
//! the script leaves out of the other tests by.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod end_to_end;
