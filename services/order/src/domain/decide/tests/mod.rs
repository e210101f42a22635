//! Every row of the table, and what holds over all histories.

mod after;
mod cancelling;
mod histories;
mod paying;
mod placing;
