//! # Suspicion: a connection whose statement was cut off may lead to nobody
//!
//! **Problem.** The pool takes a connection back once what was under way on it has ended, and waits for that without a
//! limit. At the end of a link that hangs, or of a host that is gone, the connection's place in the pool is lost for a
//! quarter of an hour, and after a few of them so is the pool (sqlx#4349).
//!
//! **Rule.** Whoever cuts a wait for the database off says so. For a while after that, each connection that comes back is
//! asked whether it still answers; one that says nothing is closed, and its place is free. Without reason nothing is asked,
//! since each question is a round trip.
//!
//! **When you copy this**: the suspicion is the process', since a process has one database. Where it has more, give each
//! its own.

use std::{
    io::ErrorKind,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

/// For as long as a server that is gone may be taken for one that is slow.
const LASTS: Duration = Duration::from_secs(10);
/// What a server that lives needs, on top of what it allows a statement, to say that it is done with it.
const LAST_WORD: Duration = Duration::from_millis(500);

/// When a wait was last cut off.
static CUT_OFF: Mutex<Option<Instant>> = Mutex::new(None);

/// To be told before the connection is dropped.
pub fn suspect() {
    *CUT_OFF.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// For a connection on its way back to the pool.
pub(crate) async fn still_answers(connection: &mut PgConnection, statement_timeout: Duration) -> sqlx::Result<bool> {
    let cut_off = *CUT_OFF.lock().unwrap_or_else(PoisonError::into_inner);
    if cut_off.is_none_or(|at| at.elapsed() > LASTS) {
        return Ok(true);
    }
    match tokio::time::timeout(statement_timeout + LAST_WORD, connection.ping()).await {
        Ok(answered) => answered.map(|()| true),
        // An error, so that the pool does not try to say good-bye.
        Err(_) => Err(sqlx::Error::Io(ErrorKind::TimedOut.into())),
    }
}
