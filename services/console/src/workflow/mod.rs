//! What operators do with versions, each in one transaction with its line in the audit, and who is told of it; and the live
//! view: [`watched`] (how each instance was seen last), [`live`] (the latest snapshot), [`listeners`] (who is told of every
//! one).

mod board;
mod change;
pub mod listeners;
pub mod live;
mod look;
pub mod watched;

pub use board::Board;
pub use look::validity;

/// Versions of the rules: their history in the database, and what is in force on the board.
#[derive(Clone)]
pub struct Rulebook {
    pub database: durable::Database,
    pub board: Board,
}
