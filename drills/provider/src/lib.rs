//! The payment provider: the one party outside the system, simulated so that it can fail on demand.
//!
//! What it *does to the money* is always exact: one decision a key, on disk before anybody hears of it (`ledger`).
//! What it *says* about it can be late, wrong or missing (`fate`), which is what the system in front has to survive.
//!
//! | payment method | charges | answer | the same request again |
//! |---|---|---|---|
//! | `tok_approve` | yes | 200 approved | the same answer |
//! | `tok_decline` | no money, but a ledger line | 200 declined | the same answer |
//! | `tok_slow_<ms>` | yes, after `<ms>` (at most 60 000) more | 200 approved | the same answer, as slowly |
//! | `tok_lost_reply` | yes | never | no second charge, no answer either |
//! | `tok_lost_request` | never | never | likewise |
//! | `tok_error_<status>` | never | that status (400 to 599), a problem body | likewise |
//! | anything else | never | 422 | likewise |
//!
//! The ratios of `PUT /admin/behaviour` are thrown for every request to `POST /v1/charges` anew, so that a repeat may
//! fare better than the first try: `error_ratio` (500, no charge), `hang_ratio` (no charge, no answer),
//! `lose_reply_ratio` (charge, no answer). The decision itself is made once a key and repeated from then on
//! (`idempotent-replayed: true`). The nth request after the start or a reset gets the nth throw of `--seed`. The three
//! `lost` and `error` methods do what they say whatever the ratios are; a declined method is never approved.
//!
//! With `at_once` it works on so many charges at the same time and lets the others stand in line (`tills`).
//!
//! Refunds, lookups, the ledger and the admin routes always answer plainly: a fault proxy in front disturbs those.
//! "Never answers" means that the connection is held (30 s unless `--hold-ms` says otherwise) and then closed without a
//! byte (`silence`). A charge becomes visible when it is decided, after its delay; `settle_ms` is the provider's
//! promise of how long that may take, told in every 404 of a lookup.
//!
//! `POST /admin/reset` puts the behaviour and the dice back to how they were at the start; with `?ledger=true` it
//! empties the ledger as well.
//!
//! Reading order: `method`, `fate`, `ledger`, then `charges`, `refunds`, `webhooks`, `admin`, and `server`,
//! which puts them together.

mod admin;
mod behaviour;
mod body;
mod charges;
mod fate;
mod ledger;
mod method;
mod problems;
mod refunds;
mod server;
mod silence;
mod tills;
mod webhooks;

pub use ledger::OpenError;
pub use server::{ProviderConfig, RunningProvider, StartError, start};
pub use webhooks::{WebhookTarget, sign};
