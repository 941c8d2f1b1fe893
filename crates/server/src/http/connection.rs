//! A connection of a client.

use crate::http::{Listener, answer};
use crate::server::Server;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use http_body_util::BodyExt;

/// Serves the clients of a socket.
pub async fn serve(server: Arc<Server>, listener: Listener) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else { continue };
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
                let (server, peer) = (server.clone(), peer.clone());
                async move { Ok::<_, Infallible>(answer(&server, &peer, request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(server.limits.head());
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
