//! Requests to an S3 store that its client does not have.

use crate::connection::{Connector, RETRIES, RETRYING};
use crate::error;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use object_store::client::{HttpClient, HttpRequestBody};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The address of a request is used at once.
const VALID: Duration = Duration::from_secs(300);

/// The first pause before a request is repeated. The next ones are twice as long each, up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How such requests reach a store.
#[derive(Clone)]
pub struct Signed {
    /// Signs the address of a request.
    signer: Arc<dyn Signer>,
    /// The bucket.
    pub bucket: String,
    connector: Connector,
    allow_http: bool,
    /// After so long, a request is not repeated.
    pub retrying: Duration,
    /// It is made when it is needed.
    client: Arc<OnceLock<HttpClient>>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is done.
    pub method: Method,
    /// The object that it is about. An empty path is the bucket.
    pub object: Path,
    /// The parameters.
    pub query: Vec<(&'static str, String)>,
    /// Headers, which are signed.
    pub headers: Vec<(&'static str, String)>,
}

impl Signed {
    /// Requests that `signer` signs for a bucket.
    pub fn new(signer: Arc<dyn Signer>, bucket: &str, connector: Connector, allow_http: bool) -> Self {
        Self { signer, bucket: bucket.to_owned(), connector, allow_http, retrying: RETRYING, client: Arc::default() }
    }

    fn client(&self) -> io::Result<&HttpClient> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.connector.patient(self.allow_http).map_err(io::Error::other)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// The status and the body of the answer. A request is repeated while the store is too busy or cannot be reached.
    ///
    /// # Errors
    /// If there are no credentials, or the store cannot be reached.
    pub async fn ask(&self, question: &Question) -> io::Result<(StatusCode, Bytes)> {
        let (begun, mut pause, mut left) = (Instant::now(), PAUSE, RETRIES);
        loop {
            let answer = self.ask_once(question).await?;
            let may_pass = answer.as_ref().is_none_or(|(status, _)| is_busy(*status));
            // An answer may have taken long itself: that a part has been copied comes after minutes.
            if !may_pass || left == 0 || begun.elapsed() > self.retrying {
                return answer.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the store does not answer"));
            }
            sleep(pause).await;
            (pause, left) = ((pause * 2).min(LONGEST_PAUSE), left - 1);
        }
    }

    /// The answer, or `None` if the store cannot be reached or its answer breaks off.
    async fn ask_once(&self, question: &Question) -> io::Result<Option<(StatusCode, Bytes)>> {
        let Question { method, object, query, headers } = question;
        let mut options = SignedUrlOptions::new().with_query(query.iter().map(|(name, value)| (*name, value.as_str())));
        let mut request = Request::builder().method(method.clone());
        for (name, value) in headers {
            let (name, value) =
                (HeaderName::from_static(name), HeaderValue::from_str(value).map_err(io::Error::other)?);
            options = options.with_signed_header(name.clone(), value.clone());
            request = request.header(name, value);
        }
        let url = self.signer.signed_url_opts(method.clone(), object, VALID, &options).await.map_err(error::of)?;
        let request = request.uri(url.as_str()).body(HttpRequestBody::empty()).map_err(io::Error::other)?;
        // The text of an error may have the signed address.
        let Ok(answer) = self.client()?.execute(request).await else { return Ok(None) };
        let status = answer.status();
        let Ok(body) = answer.into_body().collect().await else { return Ok(None) };
        let body = body.to_bytes();
        // A store that copies for long says before its end that all is well.
        let has_failed = status.is_success() && body.windows(6).take(200).any(|bytes| bytes == b"<Error");
        Ok(Some((if has_failed { StatusCode::INTERNAL_SERVER_ERROR } else { status }, body)))
    }
}

/// Whether the same request may succeed later.
pub fn is_busy(status: StatusCode) -> bool {
    let is_passing = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
    is_passing || status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
}
