//! Without a fault a link is one hop and nothing else.

use std::net::SocketAddr;

use serde_json::json;
use testkit::{Reply, eventually};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::setup::{HTTP, client, read_all, world};

#[tokio::test]
async fn a_request_arrives_as_it_was_sent_and_so_does_its_answer() {
    let it = world().await;
    let more = vec![("x-request-id", "r1".to_owned()), ("retry-after", "3".to_owned())];
    it.stub.behave(move |_| Reply::With(more.clone(), Box::new(Reply::Json(409, json!({"type": "t"})))));
    let mut stream = it.connect(HTTP).await;
    let head = "PUT /v1/a?b=c%20d HTTP/1.1\r\nhost: payment:8082\r\nX-Own: 1\r\nconnection: close\r\ncontent-length: 7\r\n\r\n";
    stream.write_all(format!("{head}{{\"a\":1}}").as_bytes()).await.unwrap();
    let answer = String::from_utf8(read_all(&mut stream).await.unwrap()).unwrap();
    // The end that the caller asked for is the one thing that is said on the hop's own account.
    let expected = "HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\ncontent-length: 12\r\n\
                    x-request-id: r1\r\nretry-after: 3\r\nconnection: close\r\n\r\n{\"type\":\"t\"}";
    assert_eq!(answer.replace("HTTP/1.1 409 Stub", "HTTP/1.1 409 Conflict"), expected);
    let seen = it.stub.seen().remove(0);
    assert_eq!((seen.path.as_str(), &seen.body), ("/v1/a?b=c%20d", &json!({"a": 1})));
    let names: Vec<&str> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "x-own", "connection", "content-length"]);
}

#[tokio::test]
async fn one_connection_carries_many_requests_and_has_one_upstream() {
    let it = world().await;
    for _ in 0..5 {
        assert_eq!(it.get().await.unwrap().status(), 200);
    }
    let link = it.link(HTTP).await;
    assert_eq!((&link["accepted"], &link["requests"], &link["connections"]), (&json!(1), &json!(5), &json!(1)));
}

#[tokio::test]
async fn requests_that_come_in_one_piece_are_answered_one_after_the_other() {
    let it = world().await;
    it.stub.behave(|seen| Reply::Raw(200, seen.path.clone()));
    let mut stream = it.connect(HTTP).await;
    let one = "POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    let two = "GET /2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{one}{two}").as_bytes()).await.unwrap();
    let answers = String::from_utf8(read_all(&mut stream).await.unwrap()).unwrap();
    let (first, second) = (answers.find("\r\n\r\n/1").unwrap(), answers.find("\r\n\r\n/2").unwrap());
    assert!(first < second, "{answers}");
}

#[tokio::test]
async fn an_upstream_that_ends_without_an_answer_is_not_given_one() {
    let it = world().await;
    it.stub.behave(|_| Reply::Close);
    let mut stream = it.connect(HTTP).await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // An end or a reset, but no byte.
    assert!(read_all(&mut stream).await.unwrap_or_default().is_empty());

    it.stub.behave(|_| Reply::Truncated);
    let answer = client().get(it.url("/")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.bytes().await.is_err());
}

#[tokio::test]
async fn a_caller_who_leaves_is_gone_upstream_too() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let links = link_to(upstream.local_addr().unwrap()).await;
    let mut stream = TcpStream::connect(links.address(HTTP).unwrap()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let (mut arrived, _) = upstream.accept().await.unwrap();
    assert!(arrived.read(&mut [0; 1024]).await.unwrap() > 0);
    drop(stream);
    assert_eq!(read_all(&mut arrived).await.unwrap_or_default(), b"");
}

#[tokio::test]
async fn a_dead_upstream_refuses_through_the_link_too_and_is_back_when_it_is_back() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = upstream.local_addr().unwrap();
    let links = link_to(address).await;
    let through = links.address(HTTP).unwrap();
    let mut stream = TcpStream::connect(through).await.unwrap();
    let (arrived, _) = upstream.accept().await.unwrap();

    // It dies with a connection open, which is how the link hears of it.
    drop((arrived, upstream));
    assert!(read_all(&mut stream).await.unwrap_or_default().is_empty());
    eventually("the link to refuse", async || TcpStream::connect(through).await.err()).await;

    let back = TcpListener::bind(address).await.unwrap();
    eventually("the link to listen", async || TcpStream::connect(through).await.ok()).await;
    drop(back);
}

#[tokio::test]
async fn an_upstream_whose_name_leads_nowhere_is_as_dead_as_one_that_refuses() {
    // No name has a part of more than 63 letters, so that nobody is asked after it.
    let links = link_to(format!("{}:80", "x".repeat(64))).await;
    let through = links.address(HTTP).unwrap();
    let mut stream = TcpStream::connect(through).await.unwrap();
    assert!(read_all(&mut stream).await.unwrap_or_default().is_empty());
    eventually("the link to refuse", async || TcpStream::connect(through).await.err()).await;
}

async fn link_to(upstream: impl ToString) -> links::RunningLinks {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (name, upstream, protocol) = (HTTP.to_owned(), upstream.to_string(), links::Protocol::Http);
    let link = links::LinkConfig { name, listen: any, upstream, protocol };
    links::start(links::LinksConfig { admin: any, links: vec![link], seed: 0 }).await.unwrap()
}
