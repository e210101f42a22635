//! A connection of an HTTP hop: framing by hyper on both sides, one connection to the upstream for each of a caller's.
//!
//! Nothing is pooled or sent again, so that whatever happens to a connection on one side happens on the other.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use hyper::{client::conn::http1 as client, server::conn::http1 as server, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, sync::Mutex};
use tokio_util::sync::CancellationToken;

use super::{
    exchange::{Body, exchange},
    reset,
};
use crate::link::Link;

/// What the requests of one connection share. They come one after the other.
pub struct Conversation {
    pub link: Arc<Link>,
    pub upstream: Mutex<client::SendRequest<Body>>,
    /// The connection is to end with RST.
    pub reset: CancellationToken,
}

/// A connection to the upstream, its driver running; the token says that it has ended.
pub async fn connect(link: &Arc<Link>) -> Option<(client::SendRequest<Body>, CancellationToken)> {
    let stream = link.connect().await.ok()?;
    let handshake = client::Builder::new().preserve_header_case(true).handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await.ok()?;
    let (ended, closing) = (CancellationToken::new(), link.closing.clone());
    let guard = ended.clone().drop_guard();
    link.tasks.spawn(async move {
        tokio::select! {
            () = closing.cancelled() => {}
            // How it ended is seen by whoever waits for an answer on it.
            _ = connection => {}
        }
        drop(guard);
    });
    Some((sender, ended))
}

pub async fn carry(link: &Arc<Link>, stream: TcpStream) {
    let Some((upstream, upstream_ended)) = connect(link).await else { return reset(stream) };
    let conversation =
        Arc::new(Conversation { link: link.clone(), upstream: Mutex::new(upstream), reset: CancellationToken::new() });
    let to_reset = conversation.reset.clone();
    let left = Arc::new(AtomicBool::new(false));
    watch_for_death(link, upstream_ended.clone(), left.clone());

    let service = service_fn(move |request| exchange(conversation.clone(), request));
    let mut connection = server::Builder::new()
        // The upstream says when it was, or does not.
        .auto_date_header(false)
        .preserve_header_case(true)
        // How long a head may take is the upstream's business.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let mut winding_down = false;
    loop {
        tokio::select! {
            biased;
            () = to_reset.cancelled() => {
                reset(connection.into_parts().io.into_inner());
                break;
            }
            () = link.closing.cancelled() => break,
            _ = &mut connection => break,
            // What is in hand gets its answer, or its end, by itself.
            () = upstream_ended.cancelled(), if !winding_down => {
                winding_down = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
            fault = link.refusal(), if !winding_down => {
                fault.count();
                winding_down = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    }
    left.store(true, Ordering::Relaxed);
}

/// An upstream that ends a connection before its caller does may have died.
fn watch_for_death(link: &Arc<Link>, upstream_ended: CancellationToken, left: Arc<AtomicBool>) {
    let link = link.clone();
    link.tasks.clone().spawn(async move {
        upstream_ended.cancelled().await;
        if !left.load(Ordering::Relaxed) {
            link.suspect();
        }
    });
}
