//! A service's process from start to end.
//!
//! Start: configuration, log, rules (from the console if it answers within a second, else as they are kept, from the
//! file or built in), then the service builds itself (database, migrations, jobs), then the listeners,
//! then ready. End, on SIGTERM: not ready → the notice that load balancers need → the listener closes → requests and
//! work come to their end → jobs finish what they have in hand (consumers commit, the relay flushes) → pools close →
//! the last spans leave. A second signal, or a shutdown that takes too long, ends the process at once; nothing is lost
//! by that, since every workflow resumes from the database.

use std::{
    future::Future,
    io::{self, Read, Write},
    net::SocketAddr,
    pin::Pin,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use actix_web::web;
use anyhow::Context;
use contracts::{Service, service::DEFAULT_PORT_BASE};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
};

use crate::{
    Lifecycle,
    admin::{Admin, ReadyCheck, StateView},
    auth::Credentials,
    collector::Collector,
    context::Shared,
    env::{ConfigError, Env},
    guards::{Guards, SharedRedis},
    openapi, rules_console,
    rules_file::{self, LoadedRules},
    server::{self, Listeners, Routes},
    telemetry::{self, TelemetryConfig},
};

/// What every service has to know about its surroundings.
#[derive(Clone)]
pub struct Wiring {
    pub service: Service,
    /// `INSTANCE`: the name of this replica, `<service>-0` by default.
    pub instance: String,
    /// `API_ADDR`
    pub api_addr: SocketAddr,
    /// `ADMIN_ADDR`
    pub admin_addr: SocketAddr,
    /// `DRAIN_NOTICE_MS`: how long the listener stays open after `/readyz` has turned 503. 0 locally; in Kubernetes
    /// as long as an endpoint takes to leave the load balancers.
    pub drain_notice: Duration,
    /// `BEHIND_GATEWAY`: `true` where users come through a gateway, which bounds how long a client may take for its headers
    /// and keeps connections that it has not used yet.
    pub behind_gateway: bool,
    /// `SHUTDOWN_TIMEOUT_MS`: a shutdown that takes longer is ended, 10 s by default.
    pub shutdown_timeout: Duration,
    pub dev: bool,
    pub credentials: Credentials,
    pub rules: LoadedRules,
    /// `CONSOLE_URL`: who is asked for the rules; unset, nobody is. The console itself follows none of its versions, so that
    /// none can shut out those who have to take it back.
    pub console: Option<String>,
    /// Where quotas of the whole cluster are counted; `None`: each instance takes its part of them.
    pub redis: Option<RedisWiring>,
    /// `ALERT_WEBHOOK_URL`: is told of every change of a breaker's state, and of what waits for a person; unset, nobody
    /// is.
    pub alert_webhook: Option<String>,
}

const CONSOLE: &str = "CONSOLE_URL";
const ALERT_WEBHOOK: &str = "ALERT_WEBHOOK_URL";

/// The Redis that the instances of a service share. Nothing has to answer there.
#[derive(Clone)]
pub struct RedisWiring {
    /// `REDIS_URL`: by default the local one, for the services that have a use for it.
    pub url: String,
    /// `REDIS_KEY_PREFIX`: put before every key; empty unless several systems share one Redis.
    pub key_prefix: String,
}

impl RedisWiring {
    fn from_env(service: Service, env: &mut Env) -> Option<Self> {
        let uses_it = matches!(service, Service::Order | Service::Payment | Service::Recommendation);
        let local = uses_it.then(|| "redis://127.0.0.1:16379".to_owned());
        let url = env.get("REDIS_URL").or(local);
        let key_prefix = env.get("REDIS_KEY_PREFIX").unwrap_or_default();
        url.map(|url| Self { url, key_prefix })
    }

    fn connect(&self) -> io::Result<SharedRedis> {
        let connection = cache::connect_lazily(&self.url)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("REDIS_URL: {error}")))?;
        Ok(SharedRedis { connection, prefix: self.key_prefix.clone() })
    }
}

impl Wiring {
    pub fn from_env(service: Service, env: &mut Env) -> Result<Self, ConfigError> {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Self {
            service,
            instance: env.get("INSTANCE").unwrap_or_else(|| format!("{service}-0")),
            api_addr: env.parse_or("API_ADDR", local(service.api_port(DEFAULT_PORT_BASE, 0)))?,
            admin_addr: env.parse_or("ADMIN_ADDR", local(service.admin_port(DEFAULT_PORT_BASE, 0)))?,
            drain_notice: env.millis_or("DRAIN_NOTICE_MS", Duration::ZERO)?,
            behind_gateway: env.parse_or("BEHIND_GATEWAY", false)?,
            shutdown_timeout: env.millis_or("SHUTDOWN_TIMEOUT_MS", Duration::from_secs(10))?,
            dev: env.is_dev()?,
            credentials: Credentials::from_env(service, env)?,
            rules: rules_file::load(env)?,
            console: match env.get(CONSOLE) {
                Some(url) if service != Service::Console => Some(env.url_or(CONSOLE, &url)?),
                _ => None,
            },
            redis: RedisWiring::from_env(service, env),
            alert_webhook: match env.get(ALERT_WEBHOOK) {
                Some(url) => Some(env.url_or(ALERT_WEBHOOK, &url)?),
                None => None,
            },
        })
    }
}

/// What a service is made of, once it has built itself.
pub struct App {
    pub routes: Routes,
    pub openapi: utoipa::openapi::OpenApi,
    pub ready: ReadyCheck,
    pub state: StateView,
    /// Says what the service's own metrics mean, and shows those at zero that count what has not happened yet.
    pub meters: fn(),
    /// Closes what outlives the jobs: pools.
    pub close: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// A service that serves.
pub struct Running {
    pub lifecycle: Lifecycle,
    listeners: Listeners,
    drain_notice: Duration,
    close: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Running {
    #[must_use]
    pub fn api_addr(&self) -> SocketAddr {
        self.listeners.api_addr
    }

    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.listeners.admin_addr
    }

    /// The whole shutdown, in the order above.
    pub async fn stop(self) {
        self.lifecycle.start_draining();
        tokio::time::sleep(self.drain_notice).await;
        self.listeners.stop_api(&self.lifecycle).await;
        self.lifecycle.stop_background().await;
        self.close.await;
        self.listeners.stop_admin().await;
    }
}

/// Opens the listeners for an application and calls it ready.
pub fn serve(wiring: &Wiring, lifecycle: Lifecycle, mut app: App) -> io::Result<Running> {
    openapi::add_guards(&mut app.openapi);
    let redis = wiring.redis.as_ref().map(RedisWiring::connect).transpose()?;
    let signals = lifecycle.signals().clone();
    signals.alerts().start(wiring, &lifecycle).map_err(io::Error::other)?;
    let guards = Guards::new(wiring.service, &wiring.instance, redis, signals, &wiring.rules.handle.current());
    let guards = Arc::new(guards.map_err(io::Error::other)?);
    let shared = web::Data::new(Shared {
        service: wiring.service,
        rules: wiring.rules.handle.clone(),
        lifecycle: lifecycle.clone(),
        guards: guards.clone(),
    });
    let admin = Admin {
        service: wiring.service,
        instance: wiring.instance.clone(),
        lifecycle: lifecycle.clone(),
        rules: wiring.rules.handle.clone(),
        ready: app.ready,
        state: app.state,
        guards: guards.clone(),
        openapi: serde_json::to_value(app.openapi).map_err(io::Error::other)?,
    };
    telemetry::metrics();
    (app.meters)();
    refuse_unruled(&admin.openapi)?;
    wiring.rules.watch(&lifecycle);
    rules_console::follow(wiring, &lifecycle);
    guards.keep_up(&wiring.rules.handle, &lifecycle);
    let credentials = web::Data::new(wiring.credentials.clone());
    let header_timeout = server::header_timeout(wiring.service, wiring.behind_gateway);
    let addresses = (wiring.api_addr, wiring.admin_addr);
    let listeners = server::listen(addresses, header_timeout, app.routes, shared, credentials, admin)?;
    lifecycle.set_ready();
    Ok(Running { lifecycle, listeners, drain_notice: wiring.drain_notice, close: app.close })
}

/// Refuses to serve a route that no rule can name: it would be unguarded, and nobody would notice.
fn refuse_unruled(openapi: &serde_json::Value) -> io::Result<()> {
    const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
    let paths = openapi["paths"].as_object().into_iter().flatten();
    let methods = paths.flat_map(|(path, item)| item.as_object().into_iter().flatten().map(move |(m, _)| (m, path)));
    let methods = methods.filter(|(method, _)| METHODS.contains(&method.as_str()));
    let mut names = methods.map(|(method, path)| format!("{} {path}", method.to_uppercase()));
    match names.find(|name| !rules::ROUTES.contains(&name.as_str())) {
        Some(name) => Err(io::Error::other(format!("`{name}` is missing in rules::ROUTES"))),
        None => Ok(()),
    }
}

/// `main` of a service: `configure` reads its own variables, `build` makes it from them.
pub fn main<C, B, Fut>(service: Service, configure: fn(&mut Env) -> Result<C, ConfigError>, build: B) -> ExitCode
where
    B: FnOnce(C, Wiring, Lifecycle) -> Fut,
    Fut: Future<Output = anyhow::Result<App>>,
{
    let mut env = Env::from_process();
    let configured = (|| {
        let telemetry = TelemetryConfig::from_env(&mut env)?;
        let wiring = Wiring::from_env(service, &mut env)?;
        let own = configure(&mut env)?;
        env.refuse_misspelt()?;
        Ok::<_, ConfigError>((telemetry, wiring, own))
    })();
    let (telemetry, wiring, own) = match configured {
        Ok(parts) => parts,
        Err(error) => return fail(service, &error.to_string()),
    };
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("--healthcheck") => return healthcheck(wiring.admin_addr),
        Some(other) => return fail(service, &format!("unknown argument `{other}`; the only one is --healthcheck")),
    }
    telemetry::init_logs(&telemetry);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(service, &error.to_string()),
    };
    let code = match runtime.block_on(run(telemetry.collector, wiring, own, build)) {
        Ok(code) => code,
        Err(error) => fail(service, &format!("{error:#}")),
    };
    // Dropping it would wait for blocking calls, such as a client's look for a broker that is away.
    runtime.shutdown_background();
    code
}

async fn run<C, B, Fut>(collector: Option<String>, mut wiring: Wiring, own: C, build: B) -> anyhow::Result<ExitCode>
where
    B: FnOnce(C, Wiring, Lifecycle) -> Fut,
    Fut: Future<Output = anyhow::Result<App>>,
{
    let mut terminate = signal(SignalKind::terminate()).context("no handler for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("no handler for SIGINT")?;
    let mut signalled = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    // Before anything counts: what is counted without a recorder is lost.
    telemetry::metrics();
    let collector = collector.map(|endpoint| Collector::start(&endpoint, &wiring)).transpose()?;
    let lifecycle = Lifecycle::new(Handle::current());
    tokio::spawn(telemetry::metrics_upkeep());
    rules_console::at_start(&mut wiring).await;
    let app = tokio::select! {
        built = build(own, wiring.clone(), lifecycle.clone()) => built?,
        () = signalled() => return Ok(ExitCode::SUCCESS),
    };
    let running = serve(&wiring, lifecycle, app).context("cannot listen")?;
    tracing::info!(
        service = %wiring.service, instance = wiring.instance, api = %running.api_addr(), admin = %running.admin_addr(),
        rules_origin = ?wiring.rules.origin, rule_version = wiring.rules.rules.version, "ready"
    );
    signalled().await;
    tracing::info!("stopping");
    let stopping = async {
        running.stop().await;
        if let Some(collector) = collector {
            collector.flush().await;
        }
    };
    tokio::select! {
        () = stopping => {
            tracing::info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
        () = signalled() => {
            tracing::warn!("a second signal: stopping at once");
            Ok(ExitCode::FAILURE)
        }
        () = tokio::time::sleep(wiring.shutdown_timeout) => {
            tracing::warn!(timeout = ?wiring.shutdown_timeout, "the shutdown took too long: stopping at once");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// One line on stderr, whatever the log is set to.
fn fail(service: Service, reason: &str) -> ExitCode {
    let reason = reason.replace('\n', " ");
    // Nobody is left to tell if stderr is gone.
    drop(writeln!(io::stderr(), "{service}: {reason}"));
    ExitCode::FAILURE
}

/// For container images without a shell or curl: asks the running process whether it is alive.
fn healthcheck(admin: SocketAddr) -> ExitCode {
    let limit = Duration::from_secs(1);
    let ask = || -> io::Result<String> {
        let ip = if admin.ip().is_unspecified() { [127, 0, 0, 1].into() } else { admin.ip() };
        let mut socket = std::net::TcpStream::connect_timeout(&SocketAddr::new(ip, admin.port()), limit)?;
        socket.set_read_timeout(Some(limit))?;
        socket.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match ask() {
        Ok(answer) if answer.starts_with("HTTP/1.1 200") => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
