//! The provider as a process. A start that fails says why in one line and exits with 1.

use std::{io::IsTerminal, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{Parser, Subcommand};
use contracts::provider::Behaviour;
use provider::{ProviderConfig, WebhookTarget, start};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Simulates a payment provider, with an append-only ledger and faults on demand.
#[derive(Parser)]
#[command(version, subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Option<Serve>,
}

#[derive(Subcommand)]
enum Command {
    /// Ask the provider that listens there whether it is alive: for container images, which have no curl.
    Healthcheck {
        #[arg(value_name = "ADDRESS:PORT")]
        addr: SocketAddr,
    },
}

#[derive(clap::Args)]
struct Serve {
    /// Part of every id that it gives: primary, backup.
    #[arg(long, value_parser = name)]
    name: String,
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// A file of JSON lines; made when it does not exist, read back when it does.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Without one no webhook is sent.
    #[arg(long, requires = "webhook_secret", value_parser = webhook_url)]
    webhook_url: Option<reqwest::Url>,
    #[arg(long, requires = "webhook_url", value_name = "SECRET")]
    webhook_secret: Option<String>,
    /// The settling time that it promises.
    #[arg(long, value_name = "N", default_value_t = Behaviour::default().settle_ms,
          value_parser = clap::value_parser!(u64).range(..=Behaviour::MAX_LATE_MS))]
    settle_ms: u64,
    /// The same seed brings the same luck.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How long a connection is held that is never answered.
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(..=600_000))]
    hold_ms: u64,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // The framework calls a reply that is lost on purpose an error.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,actix_server=warn"));
    let filter = match "actix_http=off".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let done = match cli {
        Cli { command: Some(Command::Healthcheck { addr }), .. } => healthcheck(addr).await,
        Cli { serve: Some(args), .. } => run(args).await,
        // Clap has asked for the arguments by then.
        Cli { command: None, serve: None } => Err(anyhow::anyhow!("nothing to do; see --help")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provider: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Serve) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut provider = start(ProviderConfig {
        name: args.name,
        listen: args.listen,
        ledger: args.ledger,
        webhook: args.webhook_url.zip(args.webhook_secret).map(|(url, secret)| WebhookTarget { url, secret }),
        behaviour: Behaviour { settle_ms: args.settle_ms, ..Behaviour::default() },
        seed: args.seed,
        hold_for: Duration::from_millis(args.hold_ms),
    })
    .await?;
    tracing::info!(addr = %provider.addr, "the provider is ready");
    tokio::select! {
        ended = provider.ended() => {
            ended.context("the server ended")?;
            anyhow::bail!("the server ended by itself");
        }
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // The second signal does not wait: nothing is lost, for what was answered is on disk.
    tokio::select! {
        () = provider.stop() => tracing::info!("the provider has stopped"),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn healthcheck(addr: SocketAddr) -> anyhow::Result<()> {
    // A proxy named in the environment would be asked about an address that only this machine knows.
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build()?;
    client.get(format!("http://{addr}/healthz")).send().await?.error_for_status()?;
    Ok(())
}

fn name(text: &str) -> Result<String, &'static str> {
    let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if plain && (1..=32).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err("must be 1 to 32 lower-case letters, digits and hyphens")
    }
}

/// Plain HTTP alone: this build speaks no TLS, and a webhook that can never arrive should fail here.
fn webhook_url(text: &str) -> Result<reqwest::Url, String> {
    let url: reqwest::Url = text.parse().map_err(|error| format!("{error}"))?;
    if url.scheme() == "http" { Ok(url) } else { Err("must begin with http://".to_owned()) }
}
