//! The database is away: nothing is sent that is not written down, and nothing is guessed.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use contracts::{AttemptId, headers};
use testkit::{Reply, Stub, TestDatabase, eventually};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use crate::scene::{any_kafka, approves, charge, path, patient, put, send, serve, state};

/// A way to the database that can be cut.
struct Link {
    addr: SocketAddr,
    is_cut: Arc<AtomicBool>,
    cutting: Arc<Notify>,
}

impl Link {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let link = Self { addr, is_cut: Arc::default(), cutting: Arc::default() };
        let (is_cut, cutting) = (link.is_cut.clone(), link.cutting.clone());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (is_cut, cutting) = (is_cut.clone(), cutting.clone());
                tokio::spawn(async move {
                    let cut = cutting.notified();
                    if is_cut.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(mut far) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        () = cut => {}
                    }
                });
            }
        });
        link
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        self.cutting.notify_waiters();
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// The server's address in a URL of the form `postgres://user@host:port/name`.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").unwrap().1;
    let host = rest.split_once('/').unwrap().0;
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}

async fn link_to(database: &TestDatabase) -> Link {
    let url = database.url();
    let server = tokio::net::lookup_host(authority(&url)).await.unwrap().next().unwrap();
    Link::to(server).await
}

#[tokio::test]
async fn an_outcome_that_cannot_be_recorded_is_answered_as_unknown_and_recorded_when_the_database_is_back() {
    let provider = Stub::start(|_| Reply::Late(Duration::from_millis(300), Box::new(approves()))).await;
    let database = TestDatabase::create().await;
    let link = link_to(&database).await;
    let through = |url: String| url.replace(authority(&url), &link.addr.to_string());
    let app = serve(patient(), any_kafka(), &provider.url(), &database, through).await;
    let id = AttemptId::generate();
    let cut_meanwhile = async {
        eventually("the provider sees the charge", || async {
            (!provider.seen_at("POST", "/v1/charges").is_empty()).then_some(())
        })
        .await;
        link.cut();
    };
    let request = app.put(&path(id)).json(&charge()).header(headers::EXPECTED_TIMEOUT_MS, "1200");
    let (answer, ()) = tokio::join!(send(request), cut_meanwhile);
    answer.is_unknown();
    let pool = database.connect().await.pool().clone();
    assert_eq!(state(&pool, id).await.as_deref(), Some("dispatched"));
    link.mend();
    eventually("the outcome is recorded", || async {
        (state(&pool, id).await.as_deref() == Some("approved")).then_some(())
    })
    .await;
    assert_eq!(provider.seen_at("POST", "/v1/charges").len(), 1);
}

#[tokio::test]
async fn without_a_database_nothing_is_sent() {
    let provider = Stub::start(|_| approves()).await;
    let database = TestDatabase::create().await;
    let link = link_to(&database).await;
    let mut rules = patient();
    rules.database.acquire_timeout = Duration::from_millis(300);
    let through = |url: String| url.replace(authority(&url), &link.addr.to_string());
    let app = serve(rules, any_kafka(), &provider.url(), &database, through).await;
    link.cut();
    let (id, charge) = (AttemptId::generate(), charge());
    let answer = put(&app, id, &charge).await;
    answer.is_problem(503, "storage-unavailable");
    assert_eq!(answer.headers["retry-after"], "1");
    send(app.get(&path(id))).await.is_problem(503, "storage-unavailable");
    send(app.post(&format!("{}/fence", path(id)))).await.is_problem(503, "storage-unavailable");
    assert_eq!(provider.seen_at("POST", "/v1/charges").len(), 0);
    link.mend();
    assert_eq!(put(&app, id, &charge).await.status, 200);
}
