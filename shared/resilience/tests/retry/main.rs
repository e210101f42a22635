//! Retries: the decision, the callee's budget, the chain's purse. Apart from the sources, which the interleaving tests
//! compile with primitives of their own.

mod budget;
mod decision;
mod jitter;
mod purse;
