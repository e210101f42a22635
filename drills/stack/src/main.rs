//! The local process supervisor behind `./dev`: starts the whole system on one machine, watches it, and stops it.
//!
//! Reading order: [`args`] (what can be asked), [`layout`] (ports and files), [`system`] (what a system consists of),
//! [`supervise`] (its life), [`roster`] and [`process`] (starting and stopping), [`state`] with [`identity`] (what is
//! known about it from outside), then a file a command.

mod account;
mod args;
mod control;
mod detach;
mod dlq;
mod down;
mod gateway;
mod identity;
mod kafka;
mod layout;
mod leftovers;
mod linked;
mod logs;
mod no_guards;
mod oracle;
mod ports;
mod postgres;
mod probe;
mod process;
mod redis;
mod roster;
mod rules_check;
mod rules_versions;
mod say;
mod state;
mod status;
mod supervise;
mod system;
mod token;
mod watching;
mod welcome;
mod with_stores;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, error::ErrorKind};

use crate::{
    args::{Cli, Command, Rules, Setting, Target},
    layout::Checkout,
    say::say,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if e.kind() == ErrorKind::InvalidSubcommand => {
            let name = std::env::args().nth(1).unwrap_or_default();
            eprintln!("unknown command `{name}`; ./dev help lists them");
            return ExitCode::from(2);
        }
        Err(e) => e.exit(),
    };
    match run(cli.command).await {
        Ok(code) => code,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<ExitCode> {
    // What needs no checkout: containers print tokens too, and a rules file may lie anywhere.
    match &command {
        Command::Token(wanted) => {
            say!("{}", token::mint(wanted)?);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Rules(Rules::Check { file }) => return rules_check::run(file),
        _ => {}
    }
    let checkout = Checkout::find()?;
    match command {
        Command::Up(up) if up.detach => return detach::run(&checkout, &up).await,
        Command::Up(up) => {
            if up.background {
                detach::leave_terminal()?;
            }
            supervise::run(&checkout, &up).await?;
        }
        Command::Down { port_base, wipe } => down::run(&checkout, port_base, wipe).await?,
        Command::Status { port_base, json } => return status::run(&checkout, port_base, json).await,
        Command::Logs { service, follow, lines, port_base } => {
            logs::run(&checkout, port_base, service.as_ref(), lines, follow).await?;
        }
        Command::Rules(wanted) => return rules_versions::run(&checkout, wanted).await,
        Command::Token(_) => {}
        Command::Dlq(wanted) => dlq::run(&checkout, &wanted).await?,
        Command::Oracle(wanted) => return Ok(oracle::run(&checkout, &wanted).await),
        Command::Restart { name, kill, env, port_base } => restart(&checkout, port_base, &name, kill, &env).await?,
        Command::Test { .. } => bail!("the tests are run by the script: ./dev test"),
        Command::WithStores { dir, command } => return with_stores::run(&checkout, &dir, &command).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn restart(
    checkout: &Checkout,
    port_base: Option<u16>,
    target: &Target,
    kill: bool,
    env: &[Setting],
) -> Result<()> {
    let (layout, state) = state::the_system(checkout, port_base)?.context("nothing is running")?;
    if !state.supervised() {
        bail!("the supervisor is gone; ./dev up starts the system anew");
    }
    say!("{} is ready again", control::restart(&layout, target, kill, env).await?);
    Ok(())
}
