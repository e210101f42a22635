//! The supervisor, seen from outside: real processes, real PostgreSQL and Redis, and stand-ins for our own programs.
#![expect(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

mod checkout;
mod dead_letters;
mod half_dead;
mod life;
mod oracle;
mod refusals;
mod rules;
mod stores;
