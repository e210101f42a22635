//! A hop with its faults and its counters: what the connections on it share.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::{
    net::{TcpStream, lookup_host},
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    active::{Active, Tally, View},
    fault::{Effect, Protocol},
};

/// Replaced whole at every change, so that a request sees one set of faults and holds no lock.
pub type Faults = Arc<[Arc<Active>]>;

pub struct Link {
    pub name: String,
    pub listen: SocketAddr,
    pub upstream: String,
    pub protocol: Protocol,
    pub gate: watch::Sender<Gate>,
    /// Ends everything.
    pub closing: CancellationToken,
    pub tasks: TaskTracker,
    faults: watch::Sender<Faults>,
    tally: Arc<Tally>,
    /// Something hints at a dead upstream.
    suspicion: Notify,
    pub accepted: AtomicU64,
    pub open: AtomicU64,
    pub requests: AtomicU64,
}

/// Whether connections are taken, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Open,
    Refusing,
    UpstreamDead,
}

/// A link as the admin API shows it. The counters are since the start or the last reset.
#[derive(Debug, Serialize)]
pub struct LinkView {
    name: String,
    listen: SocketAddr,
    upstream: String,
    protocol: Protocol,
    gate: Gate,
    connections: u64,
    accepted: u64,
    /// On an HTTP hop.
    requests: u64,
    applied: BTreeMap<&'static str, u64>,
    faults: Vec<View>,
}

const CONNECT_WITHIN: Duration = Duration::from_secs(5);

impl Link {
    pub fn new(
        name: &str,
        listen: SocketAddr,
        upstream: &str,
        protocol: Protocol,
        closing: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            name: name.to_owned(),
            listen,
            upstream: upstream.to_owned(),
            protocol,
            gate: watch::Sender::new(Gate::Open),
            closing,
            tasks,
            faults: watch::Sender::new(Arc::new([])),
            tally: Arc::new(Tally::default()),
            suspicion: Notify::new(),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        }
    }

    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    pub fn faults(&self) -> Faults {
        self.faults.borrow().clone()
    }

    pub fn changes(&self) -> watch::Receiver<Faults> {
        self.faults.subscribe()
    }

    /// Puts a fault in force. Returns when it holds for whoever comes next.
    pub async fn add(&self, fault: Arc<Active>) {
        let refuses = fault.fault.effect == Effect::Refuse;
        self.faults.send_modify(|faults| *faults = faults.iter().cloned().chain([fault]).collect());
        if refuses {
            self.gate_is(|gate| gate == Gate::Refusing).await;
        }
    }

    /// Takes a fault out of force, at once for whoever is in it.
    pub async fn remove(&self, id: u64) {
        let mut removed = None;
        self.faults.send_modify(|faults| {
            removed = faults.iter().find(|fault| fault.id == id).cloned();
            *faults = faults.iter().filter(|fault| fault.id != id).cloned().collect();
        });
        let Some(removed) = removed else { return };
        removed.end();
        if self.refusal_in_force().is_none() {
            self.gate_is(|gate| gate != Gate::Refusing).await;
        }
    }

    pub fn forget_counts(&self) {
        let counters = self.tally.iter().chain([&self.accepted, &self.requests]);
        counters.for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    pub fn refusal_in_force(&self) -> Option<Arc<Active>> {
        self.faults.borrow().iter().find(|fault| fault.fault.effect == Effect::Refuse).cloned()
    }

    /// Returns once connections are refused on purpose.
    pub async fn refusal(&self) -> Arc<Active> {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            if let Some(fault) = self.refusal_in_force() {
                return fault;
            }
            if changes.changed().await.is_err() {
                // The sender is ours.
                std::future::pending::<()>().await;
            }
        }
    }

    pub async fn connect(&self) -> io::Result<TcpStream> {
        let connected = match timeout(CONNECT_WITHIN, TcpStream::connect(&self.upstream)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        match &connected {
            // Best effort: without it, it is only slower.
            Ok(stream) => drop(stream.set_nodelay(true)),
            Err(_) => self.suspect(),
        }
        connected
    }

    /// The upstream closed a connection or took none: it may be gone.
    pub fn suspect(&self) {
        self.suspicion.notify_one();
    }

    pub async fn suspected(&self) {
        self.suspicion.notified().await;
    }

    /// Whether a connection would be refused there now, or there is nobody to ask: the name of a container that does
    /// not run leads nowhere, and its last address to no machine.
    pub async fn upstream_is_dead(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
        let tried = async {
            let Ok(addresses) = lookup_host(&self.upstream).await else { return true };
            let tried = TcpStream::connect(&addresses.collect::<Vec<_>>()[..]).await;
            matches!(tried, Err(e) if matches!(e.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable))
        };
        timeout(CONNECT_WITHIN, tried).await.unwrap_or(false)
    }

    pub fn view(&self) -> LinkView {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LinkView {
            name: self.name.clone(),
            listen: self.listen,
            upstream: self.upstream.clone(),
            protocol: self.protocol,
            gate: *self.gate.borrow(),
            connections: read(&self.open),
            accepted: read(&self.accepted),
            requests: read(&self.requests),
            applied: Effect::KINDS.into_iter().zip(self.tally.iter().map(read)).filter(|(_, n)| *n > 0).collect(),
            faults: self.faults().iter().map(|fault| fault.view()).collect(),
        }
    }

    async fn gate_is(&self, wanted: impl Fn(Gate) -> bool) {
        // An error would mean that the gate is gone, and then nothing is taken.
        let _ = tokio::select! {
            () = self.closing.cancelled() => Ok(()),
            told = async { self.gate.subscribe().wait_for(|gate| wanted(*gate)).await.map(|_| ()) } => told,
        };
    }
}
