//! Logs and metrics of a process, and what it is told of both and of traces.

use std::{io::IsTerminal, sync::OnceLock, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    collector,
    env::{ConfigError, Env, bad},
    meters,
};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Pretty,
}

#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// `LOG_FORMAT`: `json`, or `pretty`, the default on a terminal.
    pub format: LogFormat,
    /// `LOG_LEVEL`: a filter such as `info` or `order=debug,info`.
    pub level: String,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`: where spans go; unset, there are none.
    pub collector: Option<String>,
}

impl TelemetryConfig {
    pub fn from_env(env: &mut Env) -> Result<Self, ConfigError> {
        let format = match env.get("LOG_FORMAT").as_deref() {
            Some("json") => LogFormat::Json,
            Some("pretty") => LogFormat::Pretty,
            None if std::io::stderr().is_terminal() => LogFormat::Pretty,
            None => LogFormat::Json,
            Some(other) => return Err(bad("LOG_FORMAT", format!("`{other}` is neither json nor pretty"))),
        };
        let level = env.get("LOG_LEVEL").unwrap_or_else(|| "info".to_owned());
        if let Err(error) = EnvFilter::try_new(&level) {
            return Err(bad("LOG_LEVEL", format!("`{level}`: {error}")));
        }
        Ok(Self { format, level, collector: collector::endpoint(env)? })
    }
}

/// Upper bounds in seconds. Every timeout of the built-in rules is one of them, so that "just below the timeout" and
/// "timed out" fall into different buckets.
const DURATION_BUCKETS: [f64; 20] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 15.0, 31.0,
];

/// Installs the log. A second call in one process (tests) changes nothing.
pub fn init_logs(config: &TelemetryConfig) {
    // Checked in `from_env`; the fallback serves hand-made configurations.
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    // The log goes to stderr: stdout is for what a program was asked to print.
    let installed = match config.format {
        LogFormat::Json => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_span_list(false)
                    .with_writer(std::io::stderr),
            )
            .try_init(),
        LogFormat::Pretty => {
            registry.with(tracing_subscriber::fmt::layer().compact().with_writer(std::io::stderr)).try_init()
        }
    };
    drop(installed);
}

/// The recorder of this process, installed at the first call.
pub fn metrics() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &DURATION_BUCKETS)
            .map(PrometheusBuilder::build_recorder);
        // Refuses an empty bucket list alone, and ours is a constant.
        let recorder = recorder.expect("a bucket list");
        let handle = recorder.handle();
        // Refused only when a recorder stands already; then the handle shows nothing and nothing breaks.
        drop(metrics::set_global_recorder(recorder));
        meters::describe();
        handle
    })
}

/// What this process takes of the machine. Set when somebody asks for it.
pub fn measure_process(alive_tasks: usize) {
    metrics::gauge!("process_tasks").set(alive_tasks as f64);
    if let Some(bytes) = resident_bytes() {
        metrics::gauge!("process_resident_memory_bytes").set(bytes as f64);
    }
}

/// As Linux tells it; nothing elsewhere.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1_024)
}

/// Without this, histograms keep every sample since the start. Runs until the runtime ends.
pub async fn metrics_upkeep() {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tick.tick().await;
        metrics().run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use rules::Rules;

    use super::*;

    #[test]
    fn every_timeout_of_the_built_in_rules_ends_a_bucket() {
        let rules = Rules::default();
        let routes = rules.route.values().map(|route| route.timeout);
        let callees = serde_json::to_value(&rules.downstream).unwrap();
        let callees = callees.as_object().unwrap().values().flat_map(|rule| {
            ["timeout_ms", "attempt_timeout_ms"].map(|name| Duration::from_millis(rule[name].as_u64().unwrap()))
        });
        let timeouts: Vec<_> = routes.chain(callees).chain([rules.gateway.timeout]).collect();
        assert!(timeouts.len() > 10, "{timeouts:?}");
        for timeout in timeouts {
            let ends_one = DURATION_BUCKETS.iter().any(|bound| Duration::from_secs_f64(*bound) == timeout);
            assert!(ends_one, "no bucket ends at {timeout:?}");
        }
    }
}
