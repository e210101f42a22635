//! A private Redis, which only remembers while it runs: everything in it can be lost.

use std::{path::PathBuf, time::Duration};

use crate::{
    account::Account,
    layout::system_program,
    probe::Probe,
    process::{Spec, Stage},
};

pub const NAME: &str = "redis";

/// None where it is not installed.
pub fn spec(dir: PathBuf, port: u16, log: PathBuf) -> Option<Spec> {
    let program = system_program("redis-server")?;
    let port_text = port.to_string();
    // No configuration file: the arguments are all there is. The memory is bounded, the oldest keys go first.
    let args = [
        &["--bind", "127.0.0.1", "--port", port_text.as_str(), "--daemonize", "no", "--save", "", "--appendonly", "no"]
            [..],
        &["--maxmemory", "128mb", "--maxmemory-policy", "allkeys-lru", "--dir"],
    ];
    let mut args: Vec<_> = args.concat().into_iter().map(Into::into).collect();
    args.push(dir.into_os_string());
    Some(Spec {
        name: NAME.to_owned(),
        replica: 0,
        stage: Stage::Store,
        program,
        args,
        env: Vec::new(),
        extra: Vec::new(),
        account: Account::Same,
        hold_stdin: false,
        log,
        ready: Probe::Redis(port),
        patience: Duration::from_secs(15),
        api: None,
        admin: None,
    })
}

pub fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}
