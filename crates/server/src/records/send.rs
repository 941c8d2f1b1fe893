//! Gives the answers of a stream to the client, as fast as the client reads.

use super::OCTETS;
use super::answers::Answers;
use super::stream::{Piece, Stream};
use crate::http::body::Body;
use crate::http::{Asked, Call, response};
use crate::refusal::Refusal;
use crate::server::Server;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::{Response, header};
use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

/// A part of an answer on its way.
enum Part {
    Answers(Answers),
    /// All answers were sent.
    End,
}

/// Begins the answer with what is ready. If that is not all, the rest follows by a task of its own.
///
/// The audit line of the first answers is the caller's; those of the rest are written here, each before its answers leave.
pub fn begin(call: &mut Call, mut stream: Stream) -> Response<Body> {
    let first = stream.pop();
    let is_all = stream.is_finished() && !stream.has_ready() && !stream.is_broken();
    let Some(Piece { answers, note, .. }) = first else { return response(200, OCTETS, Bytes::new()) };
    call.note = note;
    if is_all {
        return with_headers(Whole(answers.into_parts()).boxed_unsync());
    }
    let (sender, receiver) = channel(1);
    // There is room for one.
    let _ = sender.try_send(Part::Answers(answers));
    let (server, asked) = (call.server.clone(), call.asked.clone());
    tokio::spawn(async move { send_rest(&server, &asked, stream, &sender).await });
    with_headers(Parts { now: VecDeque::new(), next: receiver }.boxed_unsync())
}

fn with_headers(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(OCTETS));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

/// Goes on with the stream and sends what is ready, until the end, or until the client is gone or does not read.
async fn send_rest(server: &Server, asked: &Asked, mut stream: Stream, sender: &Sender<Part>) {
    let mut unread = Instant::now() + server.limits.idle();
    while stream.has_ready() || !stream.is_finished() {
        let (has_ready, can_go_on) = (stream.has_ready(), stream.can_go_on());
        if !has_ready {
            unread = Instant::now() + server.limits.idle();
        }
        tokio::select! {
            room = sender.reserve(), if has_ready => {
                let (Ok(room), Some(piece)) = (room, stream.pop()) else { return };
                match asked.more(&piece.note).await {
                    Ok(()) => room.send(Part::Answers(piece.answers)),
                    Err(refusal) => {
                        room.send(Part::Answers(Answers::all_refused(1, &refusal)));
                        break;
                    }
                }
                unread = Instant::now() + server.limits.idle();
            }
            () = stream.go_on(), if can_go_on => {}
            () = sender.closed() => return,
            () = sleep_until(unread), if has_ready => return,
        }
    }
    if stream.is_broken() {
        stream.discard().await;
    }
    // What it held is free before the client learns of the end.
    drop(stream);
    let _ = sender.send(Part::End).await;
}

/// The body of an answer that is there as a whole.
struct Whole(VecDeque<Bytes>);

impl hyper::body::Body for Whole {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.pop_front().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|bytes| bytes.len() as u64).sum())
    }
}

/// The body of an answer that comes in parts. If they end without [`Part::End`], it fails, and the client sees that it is
/// not whole.
struct Parts {
    /// What has come and is not sent yet.
    now: VecDeque<Bytes>,
    next: Receiver<Part>,
}

impl hyper::body::Body for Parts {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if let Some(bytes) = self.now.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match ready!(self.next.poll_recv(context)) {
                Some(Part::Answers(answers)) => self.now = answers.into_parts(),
                Some(Part::End) => return Poll::Ready(None),
                None => return Poll::Ready(Some(Err(Refusal::failed("the answer breaks off").into()))),
            }
        }
    }
}
