//! How clients connect, and where they go: by TLS, except to this machine, and nowhere that a store sends them.

use crate::location::{is_local, is_tls};
use crate::options::Options;
use crate::patience::{OnWait, Patient, Reached};
use http::{HeaderMap, HeaderName, HeaderValue};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, RetryConfig};
use phalanx_host::lock::lock;
use reqwest::redirect::Policy;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A store that does not answer is given up after this time.
const CONNECT: Duration = Duration::from_secs(10);
/// A request may take so long as a whole: a part on a slow line, or one that a store has much work with.
pub const REQUEST: Duration = Duration::from_secs(600);
/// A request that fails is repeated so often, in this time.
pub const RETRIES: usize = 24;
pub const RETRYING: Duration = Duration::from_secs(90);
/// The most redirections that are followed.
const REDIRECTIONS: usize = 5;

/// How a client connects to an address.
#[derive(Clone, Debug)]
pub struct Connector {
    /// Whether the server may send it elsewhere. Requests with credentials go nowhere else.
    follows: bool,
    /// Whether the server is on this machine, so that no proxy is in between.
    is_local: bool,
    /// Headers of each request.
    headers: HeaderMap,
    on_wait: Option<OnWait>,
    /// How long the server may say nothing.
    silent: Duration,
    /// What all clients that connect by this have reached. One of them may be made only when an upload is completed.
    reached: Reached,
}

impl Connector {
    /// For an address of a store; empty is that of the provider.
    pub fn to(address: &str, options: &Options) -> Self {
        let Options { on_wait, silent, .. } = *options;
        let (is_local, headers, reached) = (is_local(address), HeaderMap::new(), Reached::default());
        Self { follows: false, is_local, headers, on_wait, silent, reached }
    }

    /// One that goes where the server sends it.
    pub fn following(self) -> Self {
        Self { follows: true, ..self }
    }

    /// One whose requests have a header more.
    pub fn with_header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.insert(HeaderName::from_static(name), value);
        self
    }

    /// Connects without the options of a store.
    ///
    /// # Errors
    /// If there are no certificates.
    pub fn patient(&self, allow_http: bool) -> reqwest::Result<HttpClient> {
        let client = self.client(allow_http)?;
        // Services that give credentials have no TLS.
        let direct = if allow_http { Self { is_local: true, ..self.clone() }.client(true)? } else { client.clone() };
        let (client, direct) = (HttpClient::new(client), HttpClient::new(direct));
        let Self { headers, on_wait, silent, reached, .. } = self.clone();
        Ok(HttpClient::new(Patient::new(client, direct, headers, on_wait, silent, reached)))
    }

    /// The client that waits for each answer. All that connect in the same way share their connections and the
    /// certificates, which take some milliseconds to read.
    ///
    /// # Errors
    /// If there are no certificates.
    fn client(&self, allow_http: bool) -> reqwest::Result<reqwest::Client> {
        type Way = (u32, bool, bool, bool);
        static CLIENTS: Mutex<BTreeMap<Way, reqwest::Client>> = Mutex::new(BTreeMap::new());
        let mut clients = lock(&CLIENTS);
        // A process that was forked has not the threads that drive the connections of its parent.
        let way = (std::process::id(), self.follows, self.is_local, allow_http);
        if let Some(client) = clients.get(&way) {
            return Ok(client.clone());
        }
        let client = self.new_client(allow_http)?;
        clients.insert(way, client.clone());
        Ok(client)
    }

    fn new_client(&self, allow_http: bool) -> reqwest::Result<reqwest::Client> {
        let redirections = if self.follows { Policy::custom(follow) } else { Policy::none() };
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("phalanx/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(REQUEST)
            .http1_only()
            .https_only(!allow_http)
            .redirect(redirections)
            // Another server need not know a signed address.
            .referer(false);
        if self.is_local {
            builder = builder.no_proxy();
        }
        builder.build()
    }
}

/// Reads the system's certificates and proxies, once in each process, and not only when a client first needs them. Clients
/// read the environment for these, which other threads must not change meanwhile.
pub fn prepare() {
    let both = [false, true];
    for (follows, is_local) in both.into_iter().flat_map(|follows| both.map(|is_local| (follows, is_local))) {
        let connector = Connector { follows, is_local, ..Connector::to("", &Options::default()) };
        for allow_http in both {
            // Whoever needs the client gets the error.
            let _ = connector.client(allow_http);
        }
    }
}

fn follow(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    match attempt.url().as_str() {
        _ if attempt.previous().len() > REDIRECTIONS => attempt.error("it is sent on and on"),
        url if is_tls(url) || is_local(url) => attempt.follow(),
        _ => attempt.error("it is sent to an address without TLS"),
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Only the services that give credentials to machines in a cloud, and what was checked before, are without TLS.
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        self.patient(allow_http).map_err(|e| object_store::Error::Generic { store: "HTTP", source: Box::new(e) })
    }
}

/// What a store is told of how to connect: the rest is in [`Connector`]. An address without TLS has been checked before.
pub fn options(address: &str) -> ClientOptions {
    ClientOptions::new().with_allow_http(address.starts_with("http://"))
}

/// How often a request is repeated.
pub fn retry() -> RetryConfig {
    // The time between two tries is chosen by chance, and grows by half on average.
    let backoff = BackoffConfig { base: 3.0, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRYING }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such a time runs from the start of a request, so a part would not be sent in time on a slow line.
    #[test]
    fn a_client_does_not_count_how_long_a_store_is_silent() {
        let client = format!("{:?}", Connector::to("", &Options::default()).client(false).unwrap());
        assert!(client.contains("600s") && !client.contains("read_timeout"), "{client}");
    }
}
