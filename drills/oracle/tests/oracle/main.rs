//! Every violation, planted in real databases with the real migrations, is found; and a world without any passes.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod answers;
mod apart;
mod clean;
mod coupons;
mod looking;
mod messages;
mod money;
mod sale;
mod scene;
mod standing;
mod stock;
