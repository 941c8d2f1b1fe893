//! Serving clients until the server ends.

use super::connection;
use super::edge::Edge;
use super::listen::{Incoming, Listener, Peer};
use super::peers::is_own;
use super::room::Who;
use super::stream::{Stream, Watched};
use super::watch::Watch;
use crate::refusal::Refusal;
use hyper::StatusCode;
use phalanx_host::failure::{Code, Failure, Outcome};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinSet, spawn};
use tokio::time::{sleep, timeout};

/// How long nothing is accepted after the system has refused to, as without free file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How many clients are told at the same time that there are too many.
const TOLD: usize = 64;
/// The longest that this takes.
const TELLING: Duration = Duration::from_secs(1);

/// When to end, and how long running requests may take then.
pub struct Ending {
    /// Says when.
    pub ends: oneshot::Receiver<()>,
    /// How long.
    pub patience: Duration,
}

/// Serves the clients of these sockets until the server ends, and then finishes running requests.
///
/// # Errors
/// If a socket is served no longer, which takes a panic. Running requests were finished.
pub async fn serve(edge: Arc<Edge>, listeners: Vec<Listener>, ending: Ending) -> Outcome {
    let (drain, drains) = watch::channel(false);
    // Each connection has a receiver, so that it is known when the last one has ended.
    let gone = watch::Sender::new(());
    let mut tasks = JoinSet::new();
    let told = Arc::new(Semaphore::new(TOLD));
    for listener in listeners {
        let connections =
            Connecting { edge: edge.clone(), drains: drains.clone(), gone: gone.clone(), told: told.clone() };
        tasks.spawn(async move { connections.accept(&listener).await });
    }
    let watching = edge.clone();
    tasks.spawn(async move { watching.connections.watch(&watching.server.limits).await });
    let served = tokio::select! {
        _ = ending.ends => Ok(()),
        _ = tasks.join_next() => Err(Failure::new(Code::Other, "a task of the server has ended by an error in it")),
    };
    edge.drain();
    // Those who still want to connect are refused by the system.
    tasks.shutdown().await;
    let _ = drain.send(true);
    let _ = timeout(ending.patience, gone.closed()).await;
    served
}

/// What the connections of a socket need.
struct Connecting {
    edge: Arc<Edge>,
    drains: watch::Receiver<bool>,
    gone: watch::Sender<()>,
    told: Arc<Semaphore>,
}

impl Connecting {
    async fn accept(&self, listener: &Listener) {
        loop {
            match listener.accept().await {
                Ok((incoming, peer)) => self.take(incoming, peer),
                Err(error) if is_of_client(&error) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    fn take(&self, incoming: Incoming, peer: Peer) {
        let edge = &self.edge;
        let who = match &peer {
            Peer::User(uid) if is_own(*uid) => Who::Own,
            peer if edge.peers.find(peer).is_some() => Who::Known,
            _ => Who::Stranger,
        };
        let watch = match edge.connections.add(&edge.server.limits, who, peer.holder()) {
            Ok(watch) => watch,
            Err(refusal) => {
                edge.server.metrics.connections_refused.fetch_add(1, Relaxed);
                return self.refuse(incoming, refusal);
            }
        };
        let serving = connection::serve(edge.clone(), incoming, peer, watch, self.drains.clone());
        let gone = self.gone.subscribe();
        drop(spawn(async move {
            serving.await;
            drop(gone);
        }));
    }

    /// Tells a client that there are too many, if that can be done without much effort.
    fn refuse(&self, incoming: Incoming, refusal: Refusal) {
        let Incoming::Ready(stream) = incoming else { return };
        let Ok(permit) = self.told.clone().try_acquire_owned() else { return };
        drop(spawn(async move {
            let _ = timeout(TELLING, tell(stream, &refusal)).await;
            drop(permit);
        }));
    }
}

/// Whether an error of accepting is of the one client, and says nothing about the next one.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, InvalidInput, NotConnected};
    // macOS: the client's own socket has a path that mio does not take.
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | InvalidInput | NotConnected)
}

/// Refuses whatever a client asks, and waits until it has taken the answer.
async fn tell(stream: Stream, refusal: &Refusal) -> io::Result<()> {
    let mut stream = Watched::new(stream, Arc::new(Watch::new()));
    let status = StatusCode::from_u16(refusal.kind.status()).map_err(io::Error::other)?;
    let body = serde_json::json!({ "errors": [refusal.text] }).to_string();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nRetry-After: 1\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // What is unread when a socket is closed makes the system drop the answer.
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}
