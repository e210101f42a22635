//! A Redis that a test may kill, stop and start again, and the prefix by which tests share the one that is running.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
};

use tokio::net::TcpStream;
use uuid::Uuid;

use crate::eventually;

/// A server of the test's own, in memory. Killed with this value.
pub struct OwnRedis {
    port: u16,
    server: Child,
}

impl OwnRedis {
    /// Starts `redis-server` from the path on a port of the system's choice.
    ///
    /// # Panics
    /// When there is none, or it does not come up.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let own = Self { port, server: launch(port).expect("redis-server is in the path") };
        own.answering().await;
        own
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// SIGKILL: connections are reset, and nothing listens any more.
    ///
    /// # Panics
    /// When the process cannot be killed.
    pub fn kill(&mut self) {
        self.server.kill().expect("the server is killed");
        self.server.wait().expect("the server has ended");
    }

    /// After [`Self::kill`]: an empty server on the same port.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn restart(&mut self) {
        self.server = launch(self.port).expect("redis-server is in the path");
        self.answering().await;
    }

    /// SIGSTOP: connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// SIGCONT
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.server.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {signal}");
    }

    async fn answering(&self) {
        let addr = SocketAddr::from(([127, 0, 0, 1], self.port));
        eventually("redis-server listens", || async move { TcpStream::connect(addr).await.ok() }).await;
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        // Killed before, or about to end with the test in any case.
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// The Redis that tests share.
///
/// # Panics
/// Without `TEST_REDIS_URL`; `./dev test` starts a server and sets it.
#[must_use]
pub fn shared_url() -> String {
    std::env::var("TEST_REDIS_URL").expect("TEST_REDIS_URL names no Redis; run `./dev test`, which starts one")
}

/// For the keys of one test in the Redis that all share.
#[must_use]
pub fn key_prefix() -> String {
    format!("test-{}:", Uuid::new_v4().simple())
}

fn launch(port: u16) -> io::Result<Child> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--dir", &std::env::temp_dir().display().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
