//! The links put together: [`start`] claims all ports and carries traffic, [`RunningLinks`] stops it. The binary does no
//! more than this, so that a test has the same links in its own process.

use std::{io, net::SocketAddr, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{admin, fault::Protocol, gate, link::Link, switchboard::Switchboard};

#[derive(Debug, Clone)]
pub struct LinksConfig {
    pub admin: SocketAddr,
    pub links: Vec<LinkConfig>,
    /// From which faults get theirs that are not given one.
    pub seed: u64,
}

#[derive(Debug, Clone)]
pub struct LinkConfig {
    pub name: String,
    pub listen: SocketAddr,
    /// `host:port`
    pub upstream: String,
    pub protocol: Protocol,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {addr} for {by}: {reason}")]
    Listen { addr: SocketAddr, by: String, reason: io::Error },
    #[error("two links are called {0}")]
    SameName(String),
}

/// Carries traffic until it is stopped. Dropping it stops at once.
pub struct RunningLinks {
    pub admin: SocketAddr,
    /// In the order of the configuration, with the ports that they really got.
    pub listeners: Vec<(String, SocketAddr)>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// Returns once all ports are claimed. An upstream need not be there yet.
pub async fn start(config: LinksConfig) -> Result<RunningLinks, StartError> {
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    // Ends what has begun, should a later port be taken.
    let guard = closing.clone().drop_guard();
    let listen = |addr: SocketAddr, by: &str| {
        let refused = |reason| StartError::Listen { addr, by: by.to_owned(), reason };
        let listener = gate::listen(addr).map_err(refused)?;
        Ok((listener.local_addr().map_err(refused)?, listener))
    };
    let (admin, admin_listener) = listen(config.admin, "the admin API")?;
    let mut links: Vec<Arc<Link>> = Vec::new();
    for wanted in &config.links {
        if links.iter().any(|link| link.name == wanted.name) {
            return Err(StartError::SameName(wanted.name.clone()));
        }
        let (addr, listener) = listen(wanted.listen, &wanted.name)?;
        let link = Link::new(&wanted.name, addr, &wanted.upstream, wanted.protocol, closing.clone(), tasks.clone());
        let link = Arc::new(link);
        tasks.spawn(gate::keep(link.clone(), listener));
        links.push(link);
    }
    let listeners = links.iter().map(|link| (link.name.clone(), link.listen)).collect();
    let board = Arc::new(Switchboard::new(links, config.seed));
    tasks.spawn(admin::serve(admin_listener, board, tasks.clone(), closing.clone()));
    drop(guard.disarm());
    Ok(RunningLinks { admin, listeners, tasks, closing })
}

impl RunningLinks {
    /// Cuts all connections and frees all ports.
    pub async fn stop(self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Where a link listens.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        self.listeners.iter().find(|(known, _)| known == name).map(|(_, address)| *address)
    }
}

impl Drop for RunningLinks {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}
