//! A checkout in a temporary folder, with stand-ins for the programs, and whatever runs in it stopped at the end.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;

pub const SERVICES: [&str; 5] = ["order", "inventory", "payment", "coupon", "recommendation"];

pub struct Checkout {
    pub root: PathBuf,
    pub base: u16,
}

impl Checkout {
    pub fn new() -> Self {
        let base = free_base();
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("supervisor-{}-{base}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("bin")).unwrap();
        let stand_in = Path::new(env!("CARGO_BIN_EXE_stack")).with_file_name("examples").join("stand_in");
        assert!(stand_in.is_file(), "cargo builds examples along with the tests of a package");
        for name in SERVICES.iter().chain(&["console", "broker", "provider", "links"]) {
            symlink(&stand_in, root.join("bin").join(name)).unwrap();
        }
        Self { root, base }
    }

    /// From now on the stand-in for `name` behaves so.
    pub fn behave(&self, name: &str, behaviour: &str) {
        fs::write(self.root.join("bin").join(name).with_extension("behaviour"), behaviour).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stack"));
        command.args(args).env("DEV_CHECKOUT", &self.root).env("DEV_BIN_DIR", self.root.join("bin"));
        command
    }

    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// `up --detach`, with more arguments.
    pub fn up(&self, more: &[&str]) -> Said {
        let base = self.base.to_string();
        self.run(&[&["up", "--detach", "--port-base", &base], more].concat())
    }

    pub fn status(&self) -> Value {
        let said = self.run(&["status", "--json", "--port-base", &self.base.to_string()]);
        serde_json::from_str(&said.out).unwrap()
    }

    pub fn process(&self, name: &str, replica: u64) -> Value {
        let status = self.status();
        let processes = status["processes"].as_array().unwrap();
        processes.iter().find(|p| p["name"] == name && p["replica"] == replica).cloned().unwrap_or_default()
    }

    pub fn dir(&self) -> PathBuf {
        self.root.join("target/dev").join(self.base.to_string())
    }

    pub fn state(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.dir().join("state.json")).ok()?).ok()
    }

    pub fn supervisor(&self) -> u32 {
        u32::try_from(self.state().unwrap()["supervisor"]["pid"].as_u64().unwrap()).unwrap()
    }

    /// Every process whose program, or whose folder on the command line, is this checkout's.
    pub fn processes(&self) -> Vec<String> {
        let mark = self.root.to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter(|e| e.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok()));
        pids.filter_map(|e| fs::read(e.path().join("cmdline")).ok())
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(mark))
            .collect()
    }

    pub fn assert_nothing_is_left(&self) {
        until("no process of the checkout runs", || self.processes().is_empty());
        assert!(self.state().is_none(), "a state file is left");
        for port in ports(self.base) {
            assert!(is_free(port), "port {port} is taken");
        }
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let _ = self.command(&["down", "--wipe", "--port-base", &self.base.to_string()]).output();
        let _ = fs::remove_dir_all(&self.root);
    }
}

pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// What was said on either stream.
    pub fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.all().contains(text), "`{text}` is missing in:\n{}", self.all());
        self
    }
}

/// Looks again and again, for a minute: no wait is long, but machines are busy.
#[track_caller]
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        pause();
    }
}

pub fn kill(pid: u32, signal: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{signal} {pid}")).status().unwrap();
    assert!(sent.success(), "no process {pid}");
}

#[expect(clippy::disallowed_methods, reason = "these tests wait for processes, on the machine's clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "no runtime runs here that could be blocked")]
fn pause() {
    std::thread::sleep(Duration::from_millis(25));
}

/// Below the range from which connections get their ports, and another one for each test.
fn free_base() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Spread over the range, so that two runs at once rarely try the same.
    let offset = u16::try_from(std::process::id() % 90).unwrap() * 100;
    // Forty apart, no port of one system is another's unless there are more than seven tests between them.
    (0..200)
        .map(|_| 11_000 + (offset + NEXT.fetch_add(1, Ordering::Relaxed) * 40) % 9_000)
        .find(|&base| ports(base).into_iter().all(is_free))
        .unwrap()
}

fn ports(base: u16) -> Vec<u16> {
    let services = (0..8).flat_map(|n| [base + n, base + 100 + n, base + 1000 + n, base + 1100 + n]);
    let links = (0..9).map(|n| base + 420 + n);
    services.chain(links).chain([base + 394, base + 7352, base + 8299, base + 11_012]).collect()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
