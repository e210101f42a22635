//! Programs that the runner has run for it.

use std::{
    path::Path,
    process::{Output, Stdio},
};

use anyhow::{Result, bail};
use tokio::process::Command;

/// A program that Ctrl-C does not reach: it is for the runner, which then puts things back in order.
pub fn apart(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// What was printed, or what was complained of.
pub fn said(output: Output) -> Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    bail!("{}", complaint.trim().trim_start_matches("error: "))
}
