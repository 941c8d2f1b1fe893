//! A client that has patience with a store that fails for a while, and little with one that was never reached.

use http::HeaderMap;
use object_store::client::{HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService};
use phalanx_host::lock::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// So often a server is tried that no request has reached yet.
const FIRST_TRIES: usize = 4;
/// After failures for so long something is said, once.
const SAID: Duration = Duration::from_secs(4);

/// Hears that a store keeps requests waiting.
pub type OnWait = fn(&str);

/// A client of one store.
#[derive(Debug)]
pub struct Patient {
    client: HttpClient,
    /// What each request says too.
    headers: HeaderMap,
    on_wait: Option<OnWait>,
    /// Whether a request was answered, in whatever way.
    reached: AtomicBool,
    tries: AtomicUsize,
    /// Since when all requests have failed, and whether that was said.
    failing: Mutex<Option<(Instant, bool)>>,
}

impl Patient {
    /// A client that is asked for all requests.
    pub fn new(client: HttpClient, headers: HeaderMap, on_wait: Option<OnWait>) -> Self {
        let (reached, tries) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { client, headers, on_wait, reached, tries, failing: Mutex::new(None) }
    }

    async fn ask(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.headers_mut().extend(self.headers.clone());
        let host = request.uri().host().unwrap_or_default().to_owned();
        match self.client.execute(request).await {
            Ok(answer) => {
                self.reached.store(true, Relaxed);
                let is_busy = answer.status().is_server_error() || answer.status().as_u16() == 429;
                self.note(is_busy, || format!("{host} answers {}", answer.status()));
                Ok(answer)
            }
            Err(error) => {
                self.note(true, || format!("{host} does not answer"));
                let is_hopeless = !self.reached.load(Relaxed) && self.tries.fetch_add(1, Relaxed) + 1 >= FIRST_TRIES;
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
