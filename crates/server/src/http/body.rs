//! Bodies, and reading them within bounds.

use super::watch::Watch;
use crate::in_flight::{Permit, Share};
use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use phalanx_core::Zeroizing;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::timeout;

/// A body that is received or sent.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// So much room a body gets before any of it has come.
const FIRST: usize = 64 << 10;

/// A body of these bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// No body.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The body of a request. Its watch learns when the request waits for it.
pub struct Received {
    body: Incoming,
    watch: Arc<Watch>,
}

impl Received {
    /// A body with the watch of its connection.
    pub fn new(body: Incoming, watch: Arc<Watch>) -> Self {
        Self { body, watch }
    }
}

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Pending => self.watch.body_waits(),
            Poll::Ready(frame) => {
                let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
                self.watch.body_came(data.map_or(0, Bytes::len));
            }
        }
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.watch.body_came(0);
    }
}

/// A whole body. While it exists, its bytes count as in flight.
pub struct Whole {
    /// The bytes, which are wiped on drop.
    pub bytes: Zeroizing<Vec<u8>>,
    _permit: Option<Permit>,
}

/// Takes something of a caller's share of what may be in flight.
///
/// # Errors
/// If too much is in flight already.
pub fn reserve(share: &Share, bytes: usize) -> Result<Option<Permit>, Refusal> {
    if bytes == 0 {
        return Ok(None);
    }
    let permit = share.try_take(bytes);
    permit.map(Some).ok_or_else(|| Refusal::new(Kind::Busy, "too many bytes are in flight"))
}

/// Reads a whole body of at most `most` bytes.
///
/// # Errors
/// If it is longer, the client is too slow or breaks off, or too much is in flight.
pub async fn whole(server: &Server, share: &Share, mut body: Body, most: usize) -> Result<Whole, Refusal> {
    // What can never be in flight is not a matter of asking again.
    let most = most.min(share.most());
    let too_long = || Refusal::new(Kind::TooLarge, format!("the body is longer than {most} bytes"));
    let hint = body.size_hint();
    if hint.lower() > most as u64 {
        return Err(too_long());
    }
    let announced = hint.exact().and_then(|len| usize::try_from(len).ok());
    // What is only announced takes little from others.
    let first = announced.unwrap_or(0).min(FIRST);
    let mut permit = reserve(share, first)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(first));
    while let Some(frame) = timeout(server.limits.idle(), body.frame()).await.map_err(|_| slow())? {
        let Ok(data) = frame.map_err(|_| Refusal::invalid("the body breaks off"))?.into_data() else { continue };
        let len = bytes.len() + data.len();
        if len > most {
            return Err(too_long());
        }
        if len > bytes.capacity() {
            let longer = (4 * bytes.capacity()).min(announced.unwrap_or(2 * bytes.capacity()));
            let longer = longer.max(4096).min(most).max(len);
            match (&mut permit, reserve(share, longer - bytes.capacity())?) {
                (Some(own), Some(more)) => own.merge(more),
                (own, more) => *own = more,
            }
            // Growing in place would leave a copy that is not wiped.
            let mut grown = Zeroizing::new(Vec::with_capacity(longer));
            grown.extend_from_slice(&bytes);
            bytes = grown;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Whole { bytes, _permit: permit })
}

fn slow() -> Refusal {
    Refusal::new(Kind::Timeout, "the body does not come")
}
