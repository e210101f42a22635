//! Not answering: the connection is held, and then closed without a byte, as if the reply had been lost on the way.
//!
//! The framework only knows handlers that answer. This one answers with a body that fails before its first chunk: the
//! head is still in the write buffer then, and the connection is dropped with it unsent (a test reads the raw socket).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use actix_web::{
    HttpResponse,
    body::{BodySize, MessageBody},
    web::Bytes,
};
use tokio_util::sync::CancellationToken;

/// Holds the connection for `hold_for`, or until the provider stops. A caller that leaves ends it at once.
pub async fn keep_silent(hold_for: Duration, closing: &CancellationToken) -> HttpResponse {
    tokio::select! {
        () = tokio::time::sleep(hold_for) => {}
        () = closing.cancelled() => {}
    }
    HttpResponse::Ok().body(Cut)
}

struct Cut;

impl MessageBody for Cut {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the reply is lost on purpose"))))
    }
}
