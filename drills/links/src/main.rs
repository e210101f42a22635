//! The links as a process. A start that fails says why in one line and exits with 1.

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use links::{LinkConfig, LinksConfig, Protocol, start};
use tokio::signal::unix::{SignalKind, signal};

/// Carries the hops between services, and breaks them on demand.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// Where faults are asked for.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8474")]
    admin: SocketAddr,
    /// A hop that speaks HTTP/1.1; may be repeated.
    #[arg(long, value_name = "NAME=LISTEN=UPSTREAM", value_parser = hop, allow_hyphen_values = true)]
    http: Vec<Hop>,
    /// A hop of which only the bytes are known; may be repeated.
    #[arg(long, value_name = "NAME=LISTEN=UPSTREAM", value_parser = hop, allow_hyphen_values = true)]
    tcp: Vec<Hop>,
    /// The same seed brings the same luck.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hop {
    name: String,
    listen: SocketAddr,
    upstream: String,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("links: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let http = cli.http.into_iter().map(|hop| hop.speaking(Protocol::Http));
    let tcp = cli.tcp.into_iter().map(|hop| hop.speaking(Protocol::Tcp));
    let running = start(LinksConfig { admin: cli.admin, links: http.chain(tcp).collect(), seed: cli.seed }).await?;
    for (name, address) in &running.listeners {
        eprintln!("links: {name} on {address}");
    }
    eprintln!("links: ready, admin API on {}", running.admin);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    running.stop().await;
    Ok(())
}

impl Hop {
    fn speaking(self, protocol: Protocol) -> LinkConfig {
        LinkConfig { name: self.name, listen: self.listen, upstream: self.upstream, protocol }
    }
}

/// Names have arrows and no `=`.
fn hop(text: &str) -> Result<Hop, String> {
    let mut parts = text.splitn(3, '=');
    let (Some(name), Some(listen), Some(upstream)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected NAME=LISTEN=UPSTREAM".to_owned());
    };
    let listen = listen.parse().map_err(|_| format!("`{listen}` is no ADDRESS:PORT"))?;
    match upstream.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() && !name.is_empty() => {
            Ok(Hop { name: name.to_owned(), listen, upstream: upstream.to_owned() })
        }
        _ => Err(format!("`{upstream}` is no HOST:PORT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_a_name_with_an_arrow_and_two_addresses() {
        let parsed = hop("order->payment=127.0.0.1:8501=payment:8082").unwrap();
        assert_eq!((parsed.name.as_str(), parsed.upstream.as_str()), ("order->payment", "payment:8082"));
        for bad in ["", "a->b", "a->b=127.0.0.1:1", "a->b=x=y:1", "a->b=127.0.0.1:1=y", "=127.0.0.1:1=y:2"] {
            assert!(hop(bad).is_err(), "{bad}");
        }
    }
}
