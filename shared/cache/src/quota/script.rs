//! The one script, how it is asked, and what its answer may be.
//!
//! Asked by its hash; a server that does not know it, because it is new or was started again, is sent the text, which
//! loads it. An answer of another shape is a failure like any other: numbers out of their range would otherwise become
//! leases without end.

use redis::{Cmd, RedisError, Script, aio::ConnectionManager};

use super::config::{QuotaConfig, Window};

const TEXT: &str = include_str!("lease.lua");

/// What a request needs of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    /// Of the request in hand; a lease that does not cover it is not given.
    pub weight: u32,
    pub wanted: u32,
    /// Of the last lease, and its window: as long as that lasts, the two are added up.
    pub left: u32,
    pub window: u64,
}

/// What Redis said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    pub granted: u32,
    pub window: u64,
    pub window_left_us: u64,
    pub remaining: u32,
    /// Zero when there was enough.
    pub wait_us: u64,
    pub replicas: u32,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("Redis failed")]
    Redis(#[from] RedisError),
    #[error("the script's answer makes no sense: {0:?}")]
    BadReply(Vec<i64>),
}

/// An answer, and whether the server had to be sent the text.
pub(super) struct Answer {
    pub reply: Reply,
    pub loaded: bool,
}

pub(super) struct LeaseScript {
    hash: String,
    replica: String,
    replicas_key: String,
}

impl LeaseScript {
    pub(super) fn new(config: &QuotaConfig, replica: &str) -> Self {
        let hash = Script::new(TEXT).get_hash().to_owned();
        Self { hash, replica: replica.to_owned(), replicas_key: format!("{}replicas", stem(config)) }
    }

    /// Takes a lease from `counter`; without one, says only that this replica is there.
    pub(super) async fn ask(
        &self,
        mut redis: ConnectionManager,
        config: &QuotaConfig,
        counter: Option<(&str, Ask)>,
    ) -> Result<Answer, Unanswered> {
        let by_hash = self.command("EVALSHA", &self.hash, config, counter);
        let (numbers, loaded) = match by_hash.query_async::<Vec<i64>>(&mut redis).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                (self.command("EVAL", TEXT, config, counter).query_async(&mut redis).await?, true)
            }
            answer => (answer?, false),
        };
        let reply = read(&numbers, config, counter.map(|(_, ask)| ask));
        reply.map(|reply| Answer { reply, loaded }).ok_or(Unanswered::BadReply(numbers))
    }

    fn command(&self, verb: &str, script: &str, config: &QuotaConfig, counter: Option<(&str, Ask)>) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(if counter.is_some() { 2 } else { 1 }).arg(&self.replicas_key);
        if let Some((key, _)) = counter {
            command.arg(key);
        }
        let presence_ms = 3 * config.heartbeat_ms.as_millis() as u64;
        command.arg(&self.replica).arg(presence_ms);
        if let Some((_, ask)) = counter {
            let algorithm = match config.algorithm {
                Window::Sliding => "sliding",
                Window::Fixed => "fixed",
            };
            command.arg(width_us(config)).arg(config.limit).arg(algorithm);
            command.arg(ask.weight).arg(ask.wanted).arg(ask.left).arg(ask.window);
        }
        command
    }
}

/// Before every key of one quota. The braces keep them on one node of a cluster. A count means nothing in windows of
/// another width, so that is part of it; the limit is not, and may change without a burst.
pub(super) fn stem(config: &QuotaConfig) -> String {
    format!("{{{}quota:{}:{}}}:", config.prefix, config.name, config.window_ms.as_millis())
}

fn width_us(config: &QuotaConfig) -> u64 {
    u64::try_from(config.window_ms.as_micros()).unwrap_or(u64::MAX)
}

/// `None` for what this script cannot have said.
fn read(numbers: &[i64], config: &QuotaConfig, ask: Option<Ask>) -> Option<Reply> {
    let &[granted, window, window_left_us, remaining, wait_us, replicas] = numbers else { return None };
    let reply = Reply {
        granted: u32::try_from(granted).ok()?,
        window: u64::try_from(window).ok()?,
        window_left_us: u64::try_from(window_left_us).ok()?,
        remaining: u32::try_from(remaining).ok()?,
        wait_us: u64::try_from(wait_us).ok()?,
        replicas: u32::try_from(replicas).ok().filter(|replicas| *replicas >= 1)?,
    };
    let Some(ask) = ask else { return Some(reply) };
    let width = width_us(config);
    let sensible = reply.granted <= ask.wanted.max(ask.weight)
        && (1..=width).contains(&reply.window_left_us)
        && reply.remaining <= config.limit
        && reply.wait_us <= 2 * width + 1
        && (reply.granted == 0 || reply.wait_us == 0);
    sensible.then_some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_out_of_its_range_is_none() {
        let config = QuotaConfig { limit: 100, ..QuotaConfig::default() };
        let ask = Some(Ask { weight: 1, wanted: 10, left: 0, window: 0 });
        assert!(read(&[10, 5, 1_000_000, 90, 0, 2], &config, ask).is_some());
        assert!(read(&[0, 5, 1, 0, 1_999_999, 1], &config, ask).is_some());
        for bad in [
            vec![],
            vec![1],
            vec![10, 5, 1_000_000, 90, 0, 2, 7],
            vec![-1, 5, 1_000_000, 90, 0, 2],
            vec![11, 5, 1_000_000, 90, 0, 2],
            vec![10, 5, 1_000_001, 90, 0, 2],
            vec![10, 5, 0, 90, 0, 2],
            vec![10, 5, 1_000_000, 101, 0, 2],
            vec![10, 5, 1_000_000, 90, 1, 2],
            vec![0, 5, 1_000_000, 0, 3_000_000, 2],
            vec![10, 5, 1_000_000, 90, 0, 0],
            vec![i64::MAX, 5, 1_000_000, 90, 0, 2],
        ] {
            assert_eq!(read(&bad, &config, ask), None, "{bad:?}");
        }
    }
}
