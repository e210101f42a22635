//! `load`: the generator on the command line. Exit code 0: measured; 1: could not run; 2: inconclusive, because the
//! generator was the bottleneck (or the command line is wrong).

use std::{
    env, fs,
    io::{BufWriter, Write, stdout},
    num::NonZeroU32,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use chassis::dev_secrets;
use clap::Parser;
use load::{
    Choice, Http, Limits, Mix, Plan, Process, Profile, Report, Shop, Spike, Stage, Target, Users, profile, run,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Sends an open loop of requests to the order service on this machine, and measures from when each was due.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: Target,
    /// Requests a second.
    #[arg(long, default_value = "50", value_parser = profile::rate)]
    rate: f64,
    #[arg(long, default_value = "10s", value_parser = profile::duration)]
    duration: Duration,
    /// Instead of rate and duration, as often as there are stages: 10s:50 holds, 5s:50..200 ramps.
    #[arg(long = "stage", value_name = "DURATION:RATE[..RATE]", conflicts_with_all = ["rate", "duration"])]
    stages: Vec<Stage>,
    /// A burst on top: 800@4s+2s, or 16x@4s+2s for a multiple of the rate.
    #[arg(long, value_name = "RATE@AT+DURATION")]
    spike: Option<Spike>,
    /// default (two writes to eight reads), orders, reads, or KIND=WEIGHT,…
    #[arg(long, default_value = "default")]
    mix: Mix,
    /// poisson or uniform.
    #[arg(long, default_value = "poisson")]
    arrivals: Process,
    #[arg(long, default_value = "100")]
    users: NonZeroU32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What orders are paid with, METHOD or METHOD=WEIGHT,…; the provider's simulator knows tok_decline, tok_slow_500 and
    /// others.
    #[arg(long, default_value = "tok_approve")]
    payment_method: Choice,
    /// The coupon that orders carry; CODE=WEIGHT,none=WEIGHT for some.
    #[arg(long, default_value = "none")]
    coupon: Choice,
    /// Order only this one; may be repeated. Otherwise everything that is well stocked.
    #[arg(long = "sku")]
    skus: Vec<String>,
    /// What a client waits for its answer.
    #[arg(long, default_value = "5s", value_parser = profile::duration)]
    timeout: Duration,
    #[arg(long, default_value_t = Limits::default().max_in_flight)]
    max_in_flight: usize,
    /// Write the report there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write every answer there, a line each.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
}

/// A product with less than this may be sold out by the end.
const WELL_STOCKED: i64 = 100;
/// Tokens outlive the run by this.
const TOKEN_RESERVE: Duration = Duration::from_secs(10 * 60);

#[tokio::main]
async fn main() -> ExitCode {
    match measure(Cli::parse()).await {
        Ok(report) => {
            // Whoever listened may have left; the report itself is then in its file.
            let _ = writeln!(stdout().lock(), "{report}");
            if report.generator.doubt.is_some() { ExitCode::from(2) } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(cli: Cli) -> anyhow::Result<Report> {
    let mut profile =
        if cli.stages.is_empty() { Profile::steady(cli.rate, cli.duration) } else { Profile::new(cli.stages) }?;
    if let Some(spike) = cli.spike {
        profile = profile.with_spike(spike)?;
    }
    let limits = Limits { max_in_flight: cli.max_in_flight, timeout: cli.timeout, ..Limits::default() };
    // Before the run, not after it: what was measured should have a place to go to.
    let report_file = cli.json.as_deref().map(create).transpose()?;
    let mut answers = cli.answers.as_deref().map(create).transpose()?.map(BufWriter::new);

    let users = Users::mint(cli.users, cli.seed, &signing_secret(), profile.duration() + TOKEN_RESERVE)?;
    let http = Http::new(&cli.url, cli.timeout)?;
    let skus = if cli.skus.is_empty() { http.skus(users.get(0), WELL_STOCKED).await? } else { cli.skus };
    let shop = Shop::new(users, skus, "", &Uuid::new_v4().simple().to_string())?;
    let mut shop = shop.paid_with(cli.payment_method).with_coupons(cli.coupon);
    let plan = Plan { profile, process: cli.arrivals, mix: cli.mix, users: cli.users, seed: cli.seed };

    let stop = CancellationToken::new();
    let interrupt = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupt.cancel();
        }
    });
    let mut written = Ok(());
    let exchange = move |request: std::sync::Arc<load::Request>| {
        let http = http.clone();
        async move { http.exchange(&request).await }
    };
    let sink = |answer: &load::Answer| {
        if let (Some(file), Ok(())) = (&mut answers, &written) {
            written =
                serde_json::to_writer(&mut *file, answer).map_err(Into::into).and_then(|()| file.write_all(b"\n"));
        }
    };
    let recording = run(&plan, &mut shop, limits, exchange, sink, &stop).await;

    written.and_then(|()| answers.map_or(Ok(()), |mut file| file.flush())).context("cannot write the answers")?;
    let report = Report::new(&recording, cli.seed);
    if let Some(file) = report_file {
        let mut file = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut file, &report).context("cannot write the report")?;
        file.flush().context("cannot write the report")?;
    }
    Ok(report)
}

fn create(path: &Path) -> anyhow::Result<fs::File> {
    fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// `AUTH_JWT_SECRET` where that is set, the well-known one of development otherwise.
fn signing_secret() -> String {
    let set = env::var("AUTH_JWT_SECRET").ok().filter(|secret| !secret.is_empty());
    set.unwrap_or_else(|| dev_secrets::AUTH_JWT_SECRET.to_owned())
}
