//! A client that has patience with a store that fails for a while, and little with one that was never reached.

use crate::bounded::{Bounds, no_answer};
use crate::location::is_near;
use http::HeaderMap;
use object_store::client::{HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService};
use phalanx_host::lock::lock;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// So often a server is tried that no request has reached yet.
const FIRST_TRIES: usize = 4;
/// After failures for so long something is said, once.
const SAID: Duration = Duration::from_secs(4);

/// Hears that a store keeps requests waiting.
pub type OnWait = fn(&str);

/// The hosts that have answered a request, in whatever way. Its clones are the same ones.
#[derive(Clone, Debug, Default)]
pub struct Reached(Arc<Mutex<BTreeSet<String>>>);

impl Reached {
    fn note(&self, host: &str) {
        let mut hosts = lock(&self.0);
        if !hosts.contains(host) {
            hosts.insert(host.to_owned());
        }
    }

    fn has(&self, host: &str) -> bool {
        lock(&self.0).contains(host)
    }
}

/// A client of one store.
#[derive(Debug)]
pub struct Patient {
    client: HttpClient,
    /// The client of what is asked without a proxy in between.
    direct: HttpClient,
    /// What each request says too.
    headers: HeaderMap,
    on_wait: Option<OnWait>,
    /// How long the store may say nothing.
    silent: Duration,
    reached: Reached,
    tries: AtomicUsize,
    /// Since when all requests have failed, and whether that was said.
    failing: Mutex<Option<(Instant, bool)>>,
}

impl Patient {
    /// A client that is asked for all requests, and one for those to hosts that no proxy may see.
    pub fn new(
        client: HttpClient,
        direct: HttpClient,
        headers: HeaderMap,
        on_wait: Option<OnWait>,
        silent: Duration,
        reached: Reached,
    ) -> Self {
        let tries = AtomicUsize::new(0);
        Self { client, direct, headers, on_wait, silent, reached, tries, failing: Mutex::new(None) }
    }

    async fn ask(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.headers_mut().extend(self.headers.clone());
        let host = request.uri().host().unwrap_or_default().to_owned();
        let bounds = Bounds::of(&request, self.silent);
        let client = if is_near(&host) { &self.direct } else { &self.client };
        match timeout(bounds.begins, client.execute(request)).await.unwrap_or_else(|_| Err(no_answer())) {
            Ok(answer) => {
                self.reached.note(&host);
                let is_busy = answer.status().is_server_error() || answer.status().as_u16() == 429;
                self.note(is_busy, || format!("{host} answers {}", answer.status()));
                Ok(bounds.bound(answer))
            }
            Err(error) => {
                self.note(true, || format!("{host} does not answer"));
                let is_hopeless = !self.reached.has(&host) && self.tries.fetch_add(1, Relaxed) + 1 >= FIRST_TRIES;
                // Errors of this kind are not tried again.
                Err(if is_hopeless { HttpError::new(HttpErrorKind::Unknown, error) } else { error })
            }
        }
    }

    /// Notes whether a request has failed. If all have for a while, that is said.
    fn note(&self, failed: bool, what: impl FnOnce() -> String) {
        let mut failing = lock(&self.failing);
        if !failed {
            *failing = None;
            return;
        }
        let (since, is_said) = failing.get_or_insert((Instant::now(), false));
        if let (Some(on_wait), true) = (self.on_wait, !*is_said && since.elapsed() > SAID) {
            *is_said = true;
            on_wait(&format!("the store {}: trying again", what()));
        }
    }
}

impl HttpService for Patient {
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(self.ask(request))
    }
}
