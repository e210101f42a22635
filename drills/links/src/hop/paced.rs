//! A body that passes at so many bytes a second.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::exchange::Body;
use crate::{active::Active, fault::Effect};

/// In slices of a twentieth of a second, each of which has to be waited for first.
pub struct Paced {
    inner: Body,
    /// Bytes a second; none once the fault is over.
    rate: Option<u64>,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    waiting: Bytes,
    wait: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Paced {
    pub fn new(inner: Body, fault: &Arc<Active>) -> Self {
        let rate = match fault.fault.effect {
            Effect::Bandwidth { bytes_per_second } => Some(bytes_per_second),
            _ => None,
        };
        let over = Box::pin(fault.over_token().cancelled_owned());
        Self { inner, rate, over, waiting: Bytes::new(), wait: None }
    }
}

/// How much goes at once at a rate, and how long that takes.
pub fn slice(rate: u64, waiting: usize) -> (usize, Duration) {
    let length = waiting.min(usize::try_from(rate / 20).unwrap_or(usize::MAX).max(1));
    (length, Duration::from_secs_f64(length as f64 / rate as f64))
}

impl hyper::body::Body for Paced {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.rate.is_some() && self.over.as_mut().poll(cx).is_ready() {
            self.rate = None;
            self.wait = None;
        }
        loop {
            if let Some((wait, length)) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                let length = *length;
                self.wait = None;
                return Poll::Ready(Some(Ok(Frame::data(self.waiting.split_to(length)))));
            }
            if !self.waiting.is_empty() {
                let Some(rate) = self.rate else {
                    return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.waiting)))));
                };
                let (length, time) = slice(rate, self.waiting.len());
                self.wait = Some((Box::pin(sleep(time)), length));
                continue;
            }
            match ready!(hyper::body::Body::poll_frame(Pin::new(&mut self.inner), cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.waiting = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_empty() && hyper::body::Body::is_end_stream(&self.inner)
    }
}
