//! The two listeners of a service.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_web::{App, HttpServer, dev::ServerHandle, middleware::from_fn, web};
use contracts::Service;

use crate::{
    Lifecycle,
    admin::{self, Admin},
    auth::Credentials,
    context::{self, Shared},
    problem,
};

/// The routes of a service's API, for each worker to install. State in it is made once, outside.
pub type Routes = Arc<dyn Fn(&mut web::ServiceConfig) + Send + Sync>;

/// The listeners, running.
pub struct Listeners {
    pub api_addr: SocketAddr,
    pub admin_addr: SocketAddr,
    api: ServerHandle,
    admin: ServerHandle,
}

/// A client from outside has half a second for its request line and headers, and is cut off soon after, with a bare
/// 408. The framework reckons from a clock that it sets every half a second, so that what it is told must be longer by
/// as much: told 500 ms, it now and then cuts off a client that has only just connected.
const PUBLIC_HEADER_TIMEOUT: Duration = Duration::from_millis(500 + FRAMEWORK_CLOCK_MS);
const FRAMEWORK_CLOCK_MS: u64 = 500;
/// For callers of our own. The clock starts with the connection and not with the first byte, and a client's pool keeps
/// connections that it has not used yet: cut off at 500 ms, one that is taken up at that moment would get its 408, or a
/// reset, as the answer to a request that was never read. So here too it is the client who closes first, after 30 s.
const INTERNAL_HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections that one worker holds at once.
const MAX_CONNECTIONS: usize = 2_048;
/// After so long a stop cuts off the connections that are still open. Above every deadline, so that it is idle clients
/// alone; nobody waits for it, since we wait for requests ourselves.
const STOP_TIMEOUT_SECONDS: u64 = 30;

/// How long a client of the API may take for its headers. A gateway in front is a caller of our own: it holds its clients
/// to their half second, and its pool keeps connections that it has not used yet.
pub fn header_timeout(service: Service, behind_gateway: bool) -> Duration {
    if service.is_public() && !behind_gateway { PUBLIC_HEADER_TIMEOUT } else { INTERNAL_HEADER_TIMEOUT }
}

/// Binds both addresses, API and admin, then serves. An error names the address.
pub fn listen(
    (api_addr, admin_addr): (SocketAddr, SocketAddr),
    header_timeout: Duration,
    routes: Routes,
    shared: web::Data<Shared>,
    credentials: web::Data<Credentials>,
    admin: Admin,
) -> io::Result<Listeners> {
    let (api_socket, api_addr) = bind(api_addr)?;
    let (admin_socket, admin_addr) = bind(admin_addr)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let api = HttpServer::new(move || {
        let routes = routes.clone();
        App::new()
            .app_data(shared.clone())
            .app_data(credentials.clone())
            .wrap(from_fn(context::observe))
            .configure(move |config| routes(config))
            .default_service(web::to(problem::unknown_path))
    })
    .workers(workers)
    // Longer than any client of ours keeps an unused connection, so that it is the client who closes.
    .keep_alive(rules::KEEP_ALIVE)
    .client_request_timeout(header_timeout)
    .max_connections(MAX_CONNECTIONS)
    .shutdown_timeout(STOP_TIMEOUT_SECONDS)
    .on_connect(|connection, _| {
        if let Some(socket) = connection.downcast_ref::<actix_web::rt::net::TcpStream>() {
            // Answers are small and whole; waiting to fill a segment only delays them. A socket that refuses the
            // option still works.
            drop(socket.set_nodelay(true));
        }
    })
    .disable_signals()
    .listen(api_socket)?
    .run();
    let admin_data = web::Data::new(admin);
    let admin = HttpServer::new(move || {
        App::new().app_data(admin_data.clone()).configure(admin::routes).default_service(web::to(problem::unknown_path))
    })
    .workers(1)
    .client_request_timeout(PUBLIC_HEADER_TIMEOUT)
    .shutdown_timeout(STOP_TIMEOUT_SECONDS)
    .disable_signals()
    .listen(admin_socket)?
    .run();
    let listeners = Listeners { api_addr, admin_addr, api: api.handle(), admin: admin.handle() };
    tokio::spawn(api);
    tokio::spawn(admin);
    Ok(listeners)
}

impl Listeners {
    /// Closes the API's listener and lets the requests in flight come to their end.
    pub async fn stop_api(&self, lifecycle: &Lifecycle) {
        // The handle resolves in steps of a second; the work itself is what we wait for.
        let closing = self.api.stop(true);
        tokio::spawn(closing);
        lifecycle.idle().await;
    }

    pub async fn stop_admin(&self) {
        self.admin.stop(false).await;
    }
}

fn bind(addr: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{addr}: {error}"));
    let socket = TcpListener::bind(addr).map_err(named)?;
    let addr = socket.local_addr().map_err(named)?;
    Ok((socket, addr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_be_anybody_is_cut_off_soon_and_a_caller_of_ours_or_a_gateway_is_not() {
        assert_eq!(header_timeout(Service::Order, false), PUBLIC_HEADER_TIMEOUT);
        assert_eq!(header_timeout(Service::Order, true), INTERNAL_HEADER_TIMEOUT);
        assert_eq!(header_timeout(Service::Payment, false), INTERNAL_HEADER_TIMEOUT);
    }
}
