//! A way to a database that a test may break while it is in use.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::TestDatabase;

/// Carries until it is dropped.
pub struct Link {
    /// The database's own, but through here.
    pub url: String,
    state: Arc<State>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    is_cut: watch::Sender<bool>,
    /// Raised each time that all connections fall silent.
    silences: watch::Sender<u64>,
    /// The connection that says all of this, in order, hears nothing any more.
    fatal_words: Mutex<Option<&'static [&'static str]>>,
}

impl Link {
    /// # Panics
    /// When the database's address cannot be looked up.
    pub async fn to(database: &TestDatabase) -> Self {
        let url = database.url();
        let server = tokio::net::lookup_host(authority(&url)).await.expect("the test server has an address").next();
        let (addr, state, server) = carry_to(server.expect("an address")).await;
        Self { url: url.replace(authority(&url), &addr.to_string()), state, server }
    }

    /// Ends every connection, and every new one too.
    pub fn cut(&self) {
        self.state.is_cut.send_replace(true);
    }

    pub fn mend(&self) {
        self.state.is_cut.send_replace(false);
    }

    /// As when the host at the other end is gone: connections that stand carry nothing any more and do not end. New
    /// ones are carried.
    pub fn fall_silent(&self) {
        self.state.silences.send_modify(|count| *count += 1);
    }

    /// The one connection that sends all of `words`, in order, is carried to the server and hears nothing back.
    pub fn lose_replies_after(&self, words: &'static [&'static str]) {
        *self.state.fatal_words.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }

    /// Whether a connection has said what [`Self::lose_replies_after`] names.
    #[must_use]
    pub fn has_lost_replies(&self) -> bool {
        self.state.fatal_words.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The server's address in a URL of the form `postgres://user@host:port/name`.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split_once('/').map_or(rest, |(host, _)| host);
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}

async fn carry_to(server: SocketAddr) -> (SocketAddr, Arc<State>, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let addr = listener.local_addr().expect("an address");
    let state = Arc::new(State::default());
    let shared = state.clone();
    let carrying = tokio::spawn(async move {
        // Dropped with the task, and the connections with it.
        let mut connections = JoinSet::new();
        while let Ok((near, _)) = listener.accept().await {
            let state = shared.clone();
            connections.spawn(async move {
                if *state.is_cut.borrow() {
                    return;
                }
                let (mut cut, mut silences) = (state.is_cut.subscribe(), state.silences.subscribe());
                silences.mark_unchanged();
                let Ok(far) = TcpStream::connect(server).await else { return };
                let mut ends = (near, far);
                let carried = async {
                    tokio::select! {
                        () = copy(&mut ends, &state) => return,
                        // Its sender lives as long as this does.
                        _ = silences.changed() => {}
                    }
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    () = carried => {}
                    _ = cut.wait_for(|is_cut| *is_cut) => {}
                }
            });
        }
    });
    (addr, state, carrying)
}

/// Until either end is closed.
async fn copy((near, far): &mut (TcpStream, TcpStream), state: &State) {
    let ((mut from_near, mut to_near), (mut from_far, mut to_far)) = (near.split(), far.split());
    let hears = AtomicBool::new(true);
    let there = async {
        let (mut said, mut heard) = (Vec::new(), 0);
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = from_near.read(&mut buffer).await {
            said.extend_from_slice(&buffer[..read]);
            let mut words = state.fatal_words.lock().unwrap_or_else(PoisonError::into_inner).as_ref().copied();
            while let Some(word) = words.and_then(|words| words.get(heard)) {
                let Some(at) = said.windows(word.len()).position(|window| window == word.as_bytes()) else { break };
                said.drain(..at + word.len());
                heard += 1;
                if words.is_some_and(|words| words.len() == heard) {
                    hears.store(false, Ordering::SeqCst);
                    words = None;
                    *state.fatal_words.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
            }
            if to_far.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = from_far.read(&mut buffer).await {
            if hears.load(Ordering::SeqCst) && to_near.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}
