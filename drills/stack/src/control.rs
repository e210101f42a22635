//! The socket on which a running supervisor takes requests: one JSON line each way.
//!
//! A Unix socket in the state folder, so that the folder's permissions guard it. Its path may be longer than the
//! 107 bytes that an address holds; through `/proc/self/fd/<open folder>` it never is.

use std::{
    fs::{self, File},
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    args::{Setting, Target},
    layout::Layout,
    roster::Roster,
    say::say,
};

const SOCKET: &str = "control.sock";
const LONGEST_REQUEST: u64 = 4096;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Restart { name: String, replica: Option<u16>, kill: bool, env: Vec<(String, String)> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Done(String),
    Failed(String),
}

/// Serves requests until the task is aborted.
pub fn listen(layout: &Layout, roster: Arc<Roster>) -> Result<JoinHandle<()>> {
    forget(layout);
    let (folder, path) = short_path(layout)?;
    let listener = UnixListener::bind(&path).context("cannot open the control socket")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).context("cannot guard the control socket")?;
    drop(folder);
    Ok(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, roster.clone()));
        }
    }))
}

pub fn forget(layout: &Layout) {
    // Gone already is as good.
    let _ = fs::remove_file(layout.dir.join(SOCKET));
}

/// Asks the running supervisor to restart, and waits until the process is ready again.
pub async fn restart(layout: &Layout, target: &Target, kill: bool, env: &[Setting]) -> Result<String> {
    let (_folder, path) = short_path(layout)?;
    let mut stream =
        UnixStream::connect(&path).await.context("the supervisor takes no requests (is it still starting?)")?;
    let env = env.iter().map(|setting| (setting.name.clone(), setting.value.clone())).collect();
    let request = Request::Restart { name: target.name.clone(), replica: target.replica, kill, env };
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    stream.write_all(&line).await.context("the supervisor went away")?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await.context("the supervisor went away")?;
    match serde_json::from_str(&said).context("the supervisor ended without an answer")? {
        Answer::Done(what) => Ok(what),
        Answer::Failed(why) => bail!(why),
    }
}

async fn answer(mut stream: UnixStream, roster: Arc<Roster>) {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(LONGEST_REQUEST));
    let request = match timeout(Duration::from_secs(5), reader.read_line(&mut line)).await {
        Ok(Ok(_)) => serde_json::from_str::<Request>(&line),
        // Whoever says nothing gets nothing.
        _ => return,
    };
    let outcome = match request {
        Ok(Request::Restart { name, replica, kill, env }) => restart_all(&roster, &name, replica, kill, &env).await,
        Err(e) => Err(e).context("unreadable request"),
    };
    let answer = match outcome {
        Ok(what) => Answer::Done(what),
        Err(e) => Answer::Failed(format!("{e:#}")),
    };
    if let Ok(text) = serde_json::to_vec(&answer) {
        // A caller that left does not want to know.
        let _ = write.write_all(&text).await;
    }
}

/// One after the other, so that a service with replicas stays up.
async fn restart_all(
    roster: &Arc<Roster>,
    name: &str,
    replica: Option<u16>,
    kill: bool,
    env: &[(String, String)],
) -> Result<String> {
    let labels = roster.labels(name, replica);
    if labels.is_empty() {
        bail!("no such process; there are {}", roster.all_labels().join(", "));
    }
    for label in &labels {
        say!("restarting {label}");
        roster.restart(label, kill.then_some(Signal::KILL), env).await?;
    }
    Ok(labels.join(", "))
}

/// The folder must stay open for as long as the path is used.
fn short_path(layout: &Layout) -> Result<(File, PathBuf)> {
    let folder = File::open(&layout.dir).with_context(|| format!("cannot open {}", layout.dir.display()))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET);
    Ok((folder, path))
}
