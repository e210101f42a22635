//! Which process a recorded number means.
//!
//! A pid alone is not enough: after its process is gone the kernel gives it to another one, and a supervisor that
//! trusts it kills a stranger. The pid together with the start time names one process for good.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// Clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    start: u64,
}

impl Identity {
    /// The process that has this pid now.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start: stat(pid)?.start })
    }

    /// Whether that very process still runs. A zombie does not: it only waits for its parent to look.
    pub fn alive(self) -> bool {
        stat(self.pid).is_some_and(|now| now.start == self.start && !matches!(now.state, 'Z' | 'X'))
    }

    /// Sends the signal if that very process still runs.
    pub fn signal(self, signal: Signal) {
        if !self.alive() {
            return;
        }
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // It may end between the look and the signal, which is what was wanted.
            let _ = kill_process(pid, signal);
        }
    }
}

struct Stat {
    state: char,
    start: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is the program's name in brackets and may itself hold blanks and brackets: count from the last.
fn parse(line: &str) -> Option<Stat> {
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start })
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command};

    use super::*;

    #[test]
    fn the_start_time_is_found_behind_a_hostile_name() {
        let line = "42 (a) b) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200";
        let stat = parse(line).unwrap();
        assert_eq!((stat.state, stat.start), ('S', 987_654));
    }

    #[test]
    fn this_process_lives() {
        assert!(Identity::of(process::id()).unwrap().alive());
    }

    #[test]
    fn a_pid_that_went_to_another_process_is_not_the_recorded_one_and_gets_no_signal() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let now = Identity::of(child.id()).unwrap();
        let recorded = Identity { start: now.start - 1, ..now };
        assert!(!recorded.alive());
        recorded.signal(Signal::KILL);
        assert!(now.alive(), "the stranger was killed");
        now.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!now.alive());
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = Command::new("true").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        while identity.alive() {
            std::thread::yield_now();
        }
        assert_eq!(stat(identity.pid).unwrap().state, 'Z');
        child.wait().unwrap();
    }
}
