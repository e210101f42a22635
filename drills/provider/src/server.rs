//! The provider put together: [`start`] opens the ledger, binds the port and serves, [`RunningProvider`] stops it.
//! The binary does no more than this, so that a test has the same provider in its own process.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use actix_web::{
    App, HttpServer,
    dev::ServerHandle,
    http::header,
    web::{self, Data},
};
use contracts::{
    ProblemType,
    provider::{Behaviour, Webhook},
};
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::{
    admin,
    behaviour::BehaviourInForce,
    body, charges,
    ledger::{Ledger, LedgerWriter, OpenError},
    problems::{self, Refusal},
    refunds,
    tills::Tills,
    webhooks::{WebhookTarget, Webhooks},
};

#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Part of every id, so that the ledgers of two providers are told apart.
    pub name: String,
    pub listen: SocketAddr,
    pub ledger: PathBuf,
    /// None is sent without one.
    pub webhook: Option<WebhookTarget>,
    /// The behaviour at the start and after a reset.
    pub behaviour: Behaviour,
    /// Of the dice.
    pub seed: u64,
    /// How long a connection is held that is never answered.
    pub hold_for: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {addr}: {reason}")]
    Listen { addr: SocketAddr, reason: io::Error },
    #[error(transparent)]
    Ledger(#[from] OpenError),
    #[error("cannot set up webhooks: {0}")]
    Webhooks(#[from] reqwest::Error),
}

/// Serves until it is stopped. Dropping it stops at once; what is on disk stays.
pub struct RunningProvider {
    pub addr: SocketAddr,
    handle: ServerHandle,
    serving: JoinHandle<io::Result<()>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    _writer: LedgerWriter,
}

/// What the handlers share. Made once, outside the factory of the workers.
pub struct Provider {
    pub name: String,
    pub ledger: Ledger,
    pub behaviour: BehaviourInForce,
    pub tills: Tills,
    pub hold_for: Duration,
    /// Ends all that only waits.
    pub closing: CancellationToken,
    webhooks: Option<Arc<Webhooks>>,
    tasks: TaskTracker,
    runtime: Handle,
}

const WORKERS: usize = 2;
/// A worker; it bounds the connections that are held without an answer.
const MAX_CONNECTIONS: usize = 4_096;
/// Above the 30 s for which the services keep an idle connection, so that they close first.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_TIMEOUT_SECS: u64 = 5;

impl ProviderConfig {
    /// A provider on a free port of this machine, without webhooks.
    #[must_use]
    pub fn local(name: impl Into<String>, ledger: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            ledger: ledger.into(),
            webhook: None,
            behaviour: Behaviour::default(),
            seed: 0,
            hold_for: Duration::from_secs(30),
        }
    }
}

/// Returns once the port answers. Needs a tokio runtime, on which charges and webhooks run.
pub async fn start(config: ProviderConfig) -> Result<RunningProvider, StartError> {
    let refused = |reason| StartError::Listen { addr: config.listen, reason };
    // The port first: whoever starts a provider twice should hear of the port rather than of the ledger.
    let listener = TcpListener::bind(config.listen).map_err(refused)?;
    let addr = listener.local_addr().map_err(refused)?;
    let (ledger, writer) = Ledger::open(&config.ledger)?;
    let webhooks = config.webhook.map(Webhooks::new).transpose()?.map(Arc::new);

    let closing = CancellationToken::new();
    let tasks = TaskTracker::new();
    let provider = Data::new(Provider {
        name: config.name,
        ledger,
        behaviour: BehaviourInForce::new(config.behaviour, config.seed),
        tills: Tills::default(),
        hold_for: config.hold_for,
        closing: closing.clone(),
        webhooks,
        tasks: tasks.clone(),
        runtime: Handle::current(),
    });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(provider.clone())
            .app_data(body::json_config())
            .app_data(problems::path_config())
            .app_data(problems::query_config())
            .configure(routes)
            .default_service(web::to(problems::unknown_path))
    })
    .workers(WORKERS)
    .max_connections(MAX_CONNECTIONS)
    .keep_alive(KEEP_ALIVE)
    .client_request_timeout(HEAD_TIMEOUT)
    // A caller that hangs up frees its connection; its charge goes on.
    .h1_allow_half_closed(false)
    .tcp_nodelay(true)
    .shutdown_timeout(STOP_TIMEOUT_SECS)
    .disable_signals()
    .listen(listener)
    .map_err(|reason| StartError::Listen { addr, reason })?
    .run();
    let handle = server.handle();
    Ok(RunningProvider { addr, handle, serving: tokio::spawn(server), tasks, closing, _writer: writer })
}

impl RunningProvider {
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Finishes the charges in hand, lets go of the connections that wait for nothing, and frees port and ledger.
    pub async fn stop(mut self) {
        self.closing.cancel();
        self.handle.stop(true).await;
        if !self.serving.is_finished() {
            let _ = (&mut self.serving).await;
        }
        self.tasks.close();
        // Charges whose callers left may still be waiting for their time. They are undecided, and stay so.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.tasks.wait()).await;
    }

    /// Returns when the server ends by itself, which it should not.
    pub async fn ended(&mut self) -> io::Result<()> {
        (&mut self.serving).await.map_err(io::Error::other)?
    }
}

impl Drop for RunningProvider {
    fn drop(&mut self) {
        self.closing.cancel();
        // The command is sent by the call; the future only waits for the end.
        drop(self.handle.stop(false));
    }
}

impl Provider {
    /// Runs on the runtime that started the provider: a worker's own runtime drops its tasks at a stop.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.tasks.spawn_on(task, &self.runtime)
    }

    pub fn new_id(&self, kind: &str) -> String {
        format!("{}_{kind}_{}", self.name, Uuid::now_v7().simple())
    }

    pub fn notify(&self, webhook: Webhook) {
        let Some(webhooks) = &self.webhooks else { return };
        if let Some(delivery) = webhooks.queue(webhook, &self.behaviour.current()) {
            self.spawn(delivery.run(self.closing.clone()));
        }
    }
}

fn routes(app: &mut web::ServiceConfig) {
    app.service(resource("/v1/charges", "POST").route(web::post().to(charges::create)))
        .service(resource("/v1/charges/by-key/{key}", "GET").route(web::get().to(charges::by_key)))
        .service(resource("/v1/charges/{id}/refunds", "POST").route(web::post().to(refunds::create)))
        .service(resource("/v1/ledger", "GET").route(web::get().to(admin::ledger)))
        .service(
            resource("/admin/behaviour", "GET, PUT")
                .route(web::get().to(admin::behaviour))
                .route(web::put().to(admin::set_behaviour)),
        )
        .service(resource("/admin/reset", "POST").route(web::post().to(admin::reset)))
        .service(resource("/healthz", "GET").route(web::get().to(admin::healthz)));
}

/// A path that answers 405 with a problem body to every other method.
fn resource(path: &str, allow: &'static str) -> actix_web::Resource {
    web::resource(path).default_service(web::to(move || async move {
        let refusal = Refusal::new(ProblemType::MethodNotAllowed, format!("this path has {allow}"));
        let mut response = actix_web::ResponseError::error_response(&refusal);
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allow));
        response
    }))
}
