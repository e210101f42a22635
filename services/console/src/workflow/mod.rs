//! What operators do with versions, each in one transaction with its line in the audit; and who is told of it.

mod board;
mod change;
mod look;

pub use board::Board;
pub use look::validity;

/// Versions of the rules: their history in the database, and what is in force on the board.
#[derive(Clone)]
pub struct Rulebook {
    pub database: durable::Database,
    pub board: Board,
}
