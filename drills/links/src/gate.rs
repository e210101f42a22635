//! Takes connections, or does not.
//!
//! To refuse is to have no listener, so that the caller gets what a dead process gives: ECONNREFUSED, which proves that
//! nothing was sent. The port is held meanwhile by a socket that is bound and does not listen. The same is done while
//! the upstream itself refuses, so that a link in front of a dead process does not turn "refused" into "no answer".

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    time::sleep,
};

use crate::{
    fault::Protocol,
    hop::{http, tcp},
    link::{Faults, Gate, Link},
};

/// Beyond this a connection is closed at once.
const MAX_CONNECTIONS: u64 = 4_096;
const BACKLOG: u32 = 1_024;
/// How often a dead upstream, or a port that somebody else has taken meanwhile, is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Binds the link's port. The address comes back with the port that it really got.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address)?.listen(BACKLOG)
}

/// Runs the link until it closes.
pub async fn keep(link: Arc<Link>, mut listener: TcpListener) {
    let mut changes = link.changes();
    loop {
        let mut dead = false;
        tokio::select! {
            () = link.closing.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => take(&link, client),
                // Out of descriptors, as a rule: some will be freed.
                Err(_) => sleep(LOOK_EVERY).await,
            },
            changed = changes.changed() => if changed.is_err() { return },
            () = link.suspected() => dead = link.upstream_is_dead().await,
        }
        if dead || link.refusal_in_force().is_some() {
            drop(listener);
            match stay_shut(&link, &mut changes, dead).await {
                Some(again) => listener = again,
                None => return,
            }
        }
    }
}

/// Until there is no reason any more; `None` at the end of the link.
async fn stay_shut(link: &Link, changes: &mut watch::Receiver<Faults>, mut dead: bool) -> Option<TcpListener> {
    let mut held = None;
    loop {
        if held.is_none() {
            held = bind(link.listen).ok();
        }
        let refusing = link.refusal_in_force().is_some();
        if !refusing && !dead {
            match held.take().map(|socket| socket.listen(BACKLOG)) {
                Some(Ok(listener)) => {
                    link.gate.send_replace(Gate::Open);
                    return Some(listener);
                }
                _ => sleep(LOOK_EVERY).await,
            }
            continue;
        }
        link.gate.send_replace(if refusing { Gate::Refusing } else { Gate::UpstreamDead });
        tokio::select! {
            () = link.closing.cancelled() => return None,
            changed = changes.changed() => if changed.is_err() { return None },
            () = sleep(LOOK_EVERY), if dead || held.is_none() => {}
        }
        dead = dead && link.upstream_is_dead().await;
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of an earlier listener may still be closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn take(link: &Arc<Link>, client: TcpStream) {
    if link.open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
        return;
    }
    // Best effort: without it, it is only slower.
    let _ = client.set_nodelay(true);
    link.accepted.fetch_add(1, Ordering::Relaxed);
    link.open.fetch_add(1, Ordering::Relaxed);
    let link = link.clone();
    link.tasks.clone().spawn(async move {
        match link.protocol {
            Protocol::Http => http::carry(&link, client).await,
            Protocol::Tcp => tcp::carry(&link, client).await,
        }
        link.open.fetch_sub(1, Ordering::Relaxed);
    });
}
