//! The body of an answer, on its way to the client.

use super::body::Body;
use super::watch::Watch;
use crate::in_flight::Permit;
use hyper::body::{Bytes, Frame, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of an answer. While it exists, its bytes count as in flight, and its request goes on.
pub struct Sent {
    body: Body,
    watch: Arc<Watch>,
    _permit: Option<Permit>,
}

impl Sent {
    /// A body with the watch of its connection.
    pub fn new(body: Body, watch: Arc<Watch>, permit: Option<Permit>) -> Self {
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
