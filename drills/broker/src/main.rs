//! `broker`: the embedded Kafka as a process of its own, for systems that run without Kafka.
//!
//! It ends on SIGTERM or SIGINT, and when its standard input closes, so that it does not outlive whoever started it.

use std::{
    io::{Read, stdin},
    net::SocketAddr,
    process::ExitCode,
    thread,
};

use clap::Parser;
use events::embedded;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// An in-memory Kafka for development. Not for data that anybody needs.
#[derive(Parser)]
#[command(name = "broker")]
struct Arguments {
    /// The bootstrap address; loopback only.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:19092")]
    listen: SocketAddr,
    /// Send whoever asks where the broker is to this port of this machine; something there has to lead back here.
    #[arg(long, value_name = "PORT")]
    advertise: Option<u16>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("broker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let signalled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        signalled.cancel();
    });
    let input_closed = stop.clone();
    // A thread of its own, since a read that blocks would keep the runtime from ending.
    thread::spawn(move || {
        read_to_the_end();
        input_closed.cancel();
    });
    let ready = |address| {
        eprintln!("broker: embedded Kafka: {}", embedded::LIMITS);
        eprintln!("broker: ready on {address}");
    };
    Ok(embedded::serve(arguments.listen, arguments.advertise, &contracts::topic::all(), stop, ready).await?)
}

/// What comes in means nothing; its end does.
fn read_to_the_end() {
    let mut bytes = [0; 256];
    while matches!(stdin().read(&mut bytes), Ok(n) if n > 0) {}
}
