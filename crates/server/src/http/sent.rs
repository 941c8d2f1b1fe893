//! The body of an answer, on its way to the client.

use super::body::Body;
use super::watch::Watch;
use hyper::body::{Bytes, Frame, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// What is done at the end of an answer before the client learns that it is whole.
pub type AtEnd = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;

/// The body of an answer. While it exists, its bytes count as in flight, and its request goes on.
pub struct Sent {
    body: Body,
    watch: Arc<Watch>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Sent {
    /// A body with the watch of its connection.
    pub fn new(body: Body, watch: Arc<Watch>, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { body, watch, _permit: permit }
    }
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.watch.ends();
    }
}

/// A streamed body whose end the client sees only when something else is done, such as writing to the audit log.
pub struct Closing {
    body: Option<Body>,
    at_end: Option<AtEnd>,
}

impl Closing {
    /// A body, and what is done at its end. What is dropped before then was broken off.
    pub fn new(body: Body, at_end: AtEnd) -> Self {
        Self { body: Some(body), at_end: Some(at_end) }
    }
}

impl hyper::body::Body for Closing {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(body) = &mut self.body {
            match Pin::new(body).poll_frame(cx) {
                Poll::Ready(None) => self.body = None,
                other => return other,
            }
        }
        let Some(at_end) = &mut self.at_end else { return Poll::Ready(None) };
        let done = std::task::ready!(at_end.as_mut().poll(cx));
        self.at_end = None;
        Poll::Ready(done.err().map(Err))
    }
}
