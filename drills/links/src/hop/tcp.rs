//! A connection of a TCP hop: bytes, copied both ways, and held up, lost or cut as the faults in force say.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::{paced::slice, reset};
use crate::{
    active::Active,
    fault::{Effect, Side},
    link::Link,
};

/// Whom of the faults this connection has met, and whether it was struck: one throw a connection.
type Luck = Mutex<HashMap<u64, bool>>;

/// Why a connection ends before its peers end it.
enum Cut {
    Reset,
    Close,
    Broken,
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

const CHUNK: usize = 16 << 10;

pub async fn carry(link: &Arc<Link>, mut client: TcpStream) {
    let Ok(mut upstream) = link.connect().await else { return reset(client) };
    let luck = Luck::default();
    let cut = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_upstream, mut to_upstream) = upstream.split();
        let there = pump(link, &luck, Side::Request, &mut from_client, &mut to_upstream);
        let back = async {
            let ended = pump(link, &luck, Side::Reply, &mut from_upstream, &mut to_client).await;
            if !matches!(ended, Err(Cut::Reset | Cut::Close)) {
                link.suspect();
            }
            ended
        };
        tokio::select! {
            () = link.closing.cancelled() => None,
            fault = link.refusal() => {
                fault.count();
                None
            }
            ended = async { tokio::try_join!(there, back) } => ended.err(),
        }
    };
    if matches!(cut, Some(Cut::Reset)) {
        reset(client);
        reset(upstream);
    }
}

/// Until the end of what comes in, which is passed on as such.
async fn pump(
    link: &Link,
    luck: &Luck,
    side: Side,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Cut> {
    let mut chunk = [0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            to.shutdown().await?;
            return Ok(());
        }
        let (mut pacing, mut losing) = (None, None);
        let faults = link.faults();
        if faults.is_empty() {
            // A connection may outlive any number of faults.
            luck.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        for fault in faults.iter() {
            let Some(first) = met(luck, fault) else { continue };
            match fault.fault.effect {
                Effect::Latency { on, .. } if on == side => {
                    fault.count();
                    fault.delay().await;
                }
                Effect::Hang => {
                    if first {
                        fault.count();
                    }
                    fault.over().await;
                }
                Effect::Reset => {
                    fault.count();
                    return Err(Cut::Reset);
                }
                Effect::LoseReply if side == Side::Reply => losing = Some(fault.clone()),
                Effect::Bandwidth { bytes_per_second } => {
                    if first {
                        fault.count();
                    }
                    pacing = Some((fault.clone(), bytes_per_second));
                }
                _ => {}
            }
        }
        if let Some(fault) = losing {
            fault.count();
            return lose(&fault, from).await;
        }
        let mut waiting = &chunk[..length];
        while let Some((fault, rate)) = pacing.as_ref().filter(|_| !waiting.is_empty()) {
            let (length, time) = slice(*rate, waiting.len());
            if !fault.delay_by(time).await {
                pacing = None;
                continue;
            }
            to.write_all(&waiting[..length]).await?;
            waiting = &waiting[length..];
        }
        to.write_all(waiting).await?;
    }
}

/// Reads and drops while the fault lasts; after that the stream has a hole, so it ends.
async fn lose(fault: &Active, from: &mut (impl AsyncRead + Unpin)) -> Result<(), Cut> {
    let mut chunk = [0; CHUNK];
    loop {
        tokio::select! {
            () = fault.over() => return Err(Cut::Close),
            read = from.read(&mut chunk) => if read? == 0 { return Err(Cut::Close) },
        }
    }
}

/// Whether the fault strikes this connection, and if so, whether it is the first that the connection sees of it.
fn met(luck: &Luck, fault: &Active) -> Option<bool> {
    let mut luck = luck.lock().unwrap_or_else(PoisonError::into_inner);
    let first = !luck.contains_key(&fault.id);
    luck.entry(fault.id).or_insert_with(|| fault.strikes()).then_some(first)
}
