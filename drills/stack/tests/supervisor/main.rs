//! The supervisor, seen from outside: real processes, real PostgreSQL and Redis, and stand-ins for our own programs.

mod checkout;
mod half_dead;
mod life;
mod refusals;
mod stores;
