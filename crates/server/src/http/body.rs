//! Bodies, and reading them within bounds.

use super::watch::Watch;
use crate::in_flight::{Permit, Share, Turn, busy};
use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::timeout;

/// A body that is received or sent.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// So much room a body gets before any of it has come.
const FIRST: usize = 64 << 10;

/// A body counts so many times: it is followed by a batch and an answer of about the same length.
pub const COUNTS: usize = 3;

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

/// A whole body.
pub struct Whole {
    /// The bytes. What is freed is wiped: see `main.rs`.
    pub bytes: Vec<u8>,
    /// What the body and what follows from it takes of what may be in flight.
    pub room: Room,
}

/// A part of what may be in flight, and the turn of a large body, for as long as this exists.
#[derive(Default)]
pub struct Room {
    permit: Option<Permit>,
    turn: Option<Turn>,
}

impl Room {
    /// Takes some more.
    ///
    /// # Errors
    /// If too much is in flight already.
    pub fn more(&mut self, share: &Share, bytes: usize) -> Result<(), Refusal> {
        if bytes > 0 {
            self.add(share.try_take(bytes).ok_or_else(busy)?);
        }
        Ok(())
    }

    fn add(&mut self, more: Permit) {
        match &mut self.permit {
            Some(own) => own.merge(more),
            None => self.permit = Some(more),
        }
    }

    fn bytes(&self) -> usize {
        self.permit.as_ref().map_or(0, Permit::bytes)
    }
}

/// Reads a whole body of at most `most` bytes.
///
/// # Errors
/// If it is longer, the client is too slow or breaks off, or too much is in flight.
pub async fn whole(server: &Server, share: &Share, mut body: Body, most: usize) -> Result<Whole, Refusal> {
    // What can never be in flight is not a matter of asking again.
    let most = most.min(share.most() / COUNTS);
    let too_long = || Refusal::new(Kind::TooLarge, format!("the body is longer than {most} bytes"));
    let hint = body.size_hint();
    if hint.lower() > most as u64 {
        return Err(too_long());
    }
    let announced = hint.exact().and_then(|len| usize::try_from(len).ok());
    let mut whole = Whole { bytes: Vec::new(), room: Room::default() };
    if announced.is_some_and(|len| is_large(len, share)) {
        whole.room.turn = Some(in_time(server, share.turn()).await?);
    }
    // What is only announced takes little from others.
    let first = announced.unwrap_or(0).min(FIRST);
    whole.room.more(share, COUNTS * first)?;
    whole.bytes.reserve(first);
    while let Some(frame) = timeout(server.limits.idle(), body.frame()).await.map_err(|_| slow())? {
        let Ok(data) = frame.map_err(|_| Refusal::invalid("the body breaks off"))?.into_data() else { continue };
        let len = whole.bytes.len() + data.len();
        if len > most {
            return Err(too_long());
        }
        if len > whole.bytes.capacity() {
            whole.grow(server, share, len, announced.ok_or(most)).await?;
        }
        whole.bytes.extend_from_slice(&data);
    }
    Ok(whole)
}

/// Whether a body of this length, with what follows from it, takes a large part of a share.
fn is_large(len: usize, share: &Share) -> bool {
    COUNTS * len > share.most() / 4
}

/// Waits for room, as long as for a client.
async fn in_time<T>(server: &Server, room: impl Future<Output = Option<T>>) -> Result<T, Refusal> {
    timeout(server.limits.idle(), room).await.ok().flatten().ok_or_else(busy)
}

impl Whole {
    /// Makes room for `len` bytes or more, of those that were announced, or else of the most that there may be. A large
    /// body takes all that it may need at once.
    async fn grow(
        &mut self,
        server: &Server,
        share: &Share,
        len: usize,
        announced: Result<usize, usize>,
    ) -> Result<(), Refusal> {
        let (Ok(all) | Err(all)) = announced;
        // It must not hold much while it waits.
        if announced.is_err() && self.room.turn.is_none() && is_large(8 * len, share) {
            self.room.turn = Some(in_time(server, share.turn()).await?);
        }
        let longer =
            if self.room.turn.is_some() { all } else { (4 * self.bytes.capacity()).max(4096).min(all).max(len) };
        let more = (COUNTS * longer).saturating_sub(self.room.bytes());
        match self.room.turn {
            Some(_) => self.room.add(in_time(server, share.take(more)).await?),
            None => self.room.more(share, more)?,
        }
        self.bytes.reserve_exact(longer - self.bytes.len());
        Ok(())
    }
}

fn slow() -> Refusal {
    Refusal::new(Kind::Timeout, "the body does not come")
}
