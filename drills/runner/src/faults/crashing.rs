//! Lets a process die at one crash point after the other. The next point is armed with the restart that brings the
//! process back, so that each death costs one start.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::stack::{Stack, named};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Until all points are passed or `stop`; in the end the process runs unarmed. `met` counts the deaths.
pub async fn walk(
    stack: &Stack,
    process: &str,
    points: &[String],
    met: &AtomicU32,
    stop: &CancellationToken,
) -> Result<()> {
    let walked = async {
        let (name, replica) = named(process)?;
        for point in points {
            if stop.is_cancelled() {
                break;
            }
            let log = stack.log_of(name, replica)?;
            let before = deaths(&log, point);
            stack.arm(process, point).await?;
            while !stack.has_ended(name, replica).await? {
                if stop.is_cancelled() {
                    return Ok(());
                }
                sleep(LOOK_EVERY).await;
            }
            if deaths(&log, point) == before {
                bail!("{process} died, and not of {point}");
            }
            met.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
    .await;
    stack.restart(process).await?;
    walked
}

/// How often the log says that its process dies there.
fn deaths(log: &Path, point: &str) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    let point = format!("\"{point}\"");
    text.lines().filter(|line| line.contains("crashing") && line.contains(&point)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_one_that_the_log_puts_down_to_the_point() {
        let log = std::env::temp_dir().join(format!("crashing-{}.log", std::process::id()));
        assert_eq!(deaths(&log, "order.created"), 0);
        let line = r#"{"level":"ERROR","message":"crashing, as CRASH_AT asks for","crash_point":"order.created"}"#;
        let other = r#"{"level":"INFO","message":"armed","crash_point":"order.created"}"#;
        fs::write(&log, format!("{line}\n{other}\n{line}\n")).unwrap();
        assert_eq!((deaths(&log, "order.created"), deaths(&log, "order.create")), (2, 0));
        fs::remove_file(log).unwrap();
    }
}
