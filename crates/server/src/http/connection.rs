//! A connection of a client.

use super::body::Received;
use super::edge::Edge;
use super::listen::{Incoming, Peer};
use super::sent::Sent;
use super::stream::{Stream, Watched};
use super::watch::Watch;
use super::{refused, route, tls};
use crate::refusal::Refusal;
use http_body_util::BodyExt;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{self, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch::Receiver;
use tokio::time::timeout;

/// The most bytes that one connection reads ahead.
const AHEAD: usize = 64 << 10;
/// How long, and for how many bytes, a client is listened to after the last answer: a client that is still sending would
/// otherwise lose the answer that says why it should not.
const LINGER: Duration = Duration::from_secs(3);
const LINGER_BYTES: usize = 64 << 20;

/// Serves a connection until it ends. When `drains` says so, the running request is the last one.
pub async fn serve(edge: Arc<Edge>, incoming: Incoming, peer: Peer, watch: Arc<Watch>, drains: Receiver<bool>) {
    let dropped = watch.clone();
    tokio::select! {
        () = greet(edge, incoming, peer, watch, drains) => {}
        () = dropped.dropped() => {}
    }
}

/// Shakes hands, if it is TLS, and answers requests.
async fn greet(edge: Arc<Edge>, incoming: Incoming, mut peer: Peer, watch: Arc<Watch>, drains: Receiver<bool>) {
    let stream = match incoming {
        Incoming::Ready(stream) => stream,
        Incoming::Tls(stream, tls) => {
            let Ok(Ok(stream)) = timeout(edge.server.limits.head(), tls.accept(stream)).await else { return };
            if let Peer::Address { certificate, .. } = &mut peer {
                *certificate = tls::fingerprint(&stream);
            }
            Stream::Tls(Box::new(stream))
        }
    };
    exchange(edge, stream, peer, watch, drains).await;
}

/// Answers requests, and then listens for a while to a client that is still sending.
async fn exchange(edge: Arc<Edge>, stream: Stream, peer: Peer, watch: Arc<Watch>, mut drains: Receiver<bool>) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        watch.begins();
        let (edge, peer, watch) = (edge.clone(), peer.clone(), watch.clone());
        Box::pin(async move { Ok::<_, Infallible>(answer(&edge, &peer, &watch, request).await) })
    });
    let limits = &edge.server.limits;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        // The watch does this.
        .header_read_timeout(None)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .max_buf_size(AHEAD.max(limits.head_bytes + 4096))
        .half_close(true);
    let mut connection = http.serve_connection(TokioIo::new(Watched::new(stream, watch.clone())), service);
    let mut is_told = false;
    loop {
        tokio::select! {
            _ = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break,
            _ = drains.wait_for(|drains| *drains), if !is_told => {
                is_told = true;
                pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    }
    let mut stream = connection.into_parts().io.into_inner();
    let _ = timeout(LINGER, linger(&mut stream)).await;
}

async fn linger(stream: &mut Watched) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut buffer = [0; 16 << 10];
    let mut left = LINGER_BYTES;
    while left > 0 {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => left = left.saturating_sub(read),
        }
    }
}

/// Answers a request, also if that panics.
async fn answer(
    edge: &Arc<Edge>,
    peer: &Peer,
    watch: &Arc<Watch>,
    request: Request<hyper::body::Incoming>,
) -> Response<Sent> {
    let request = request.map(|body| Received::new(body, watch.clone()).boxed_unsync());
    let answered = unless_it_panics(route::answer(edge, peer, watch, request)).await;
    let (answer, permit) = answered.unwrap_or_else(|| {
        edge.server.metrics.panics.fetch_add(1, Relaxed);
        (refused(&Refusal::failed("internal error")), None)
    });
    let mut answer = answer.map(|body| Sent::new(body, watch.clone(), permit));
    if !watch.is_known() {
        // Who is not known has one request, and does not keep the connection from others.
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// What a future gives, or nothing if it panics, which has been reported by then.
async fn unless_it_panics<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught() {
        assert_eq!(unless_it_panics(async { 1 }).await, Some(1));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("this panic is wanted")
        };
        assert_eq!(unless_it_panics::<()>(panics).await, None);
    }
}
