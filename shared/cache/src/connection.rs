//! A shared connection to a Redis that may be absent, slow or restarted at any time.
//!
//! With the library's defaults the first command after the server has died fails at once and each later one hangs for
//! nine seconds, because the response timeout does not cover the reconnect that all commands share. The limits below
//! bring that down to about 100 ms. Callers put a timeout of their own around every command all the same.

use std::time::Duration;

use redis::{
    Client, IntoConnectionInfo,
    aio::{ConnectionManager, ConnectionManagerConfig},
    io::tcp::TcpSettings,
};

/// The address is none that Redis has. It is not repeated, since it may hold a password.
#[derive(Debug, thiserror::Error)]
#[error("no address of a Redis, such as redis://127.0.0.1:6379")]
pub struct BadRedisUrl(#[source] redis::RedisError);

/// A connection that is opened by the first command, and again after it was lost. Needs a tokio runtime; clones share
/// the one socket.
pub fn connect_lazily(url: &str) -> Result<ConnectionManager, BadRedisUrl> {
    // Commands are small and each is waited for: Nagle's algorithm only delays them.
    let tcp = TcpSettings::default().set_nodelay(true);
    // A server whose machine vanished resets nothing. Without this its socket would be kept for a quarter of an hour.
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(Duration::from_secs(5));
    let info = url.into_connection_info().map_err(BadRedisUrl)?.set_tcp_settings(tcp);
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_max_delay(Duration::from_millis(200))
        .set_connection_timeout(Some(Duration::from_millis(200)))
        .set_response_timeout(Some(Duration::from_millis(100)));
    let client = Client::open(info).map_err(BadRedisUrl)?;
    ConnectionManager::new_lazy_with_config(client, config).map_err(BadRedisUrl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_command_to_a_server_that_is_gone_fails_soon() {
        let mut server = testkit::OwnRedis::start().await;
        let mut connection = connect_lazily(&server.url()).unwrap();
        let ping = async |connection: &mut ConnectionManager| {
            let asked = redis::cmd("PING").query_async::<String>(connection).await;
            asked.map_err(|error| error.to_string())
        };
        assert_eq!(ping(&mut connection).await.as_deref(), Ok("PONG"));
        server.kill();
        for _ in 0..3 {
            // Far above our limits on a busy machine, far below the nine seconds of the defaults.
            let failed = tokio::time::timeout(Duration::from_secs(3), ping(&mut connection)).await;
            assert!(failed.expect("it fails by itself").is_err());
        }
    }

    #[tokio::test]
    async fn a_connection_is_made_without_a_server_and_a_bad_address_is_refused_without_repeating_it() {
        assert!(connect_lazily("redis://127.0.0.1:1").is_ok());
        let refused = connect_lazily("http://:hunter2@127.0.0.1").err().unwrap();
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
}
