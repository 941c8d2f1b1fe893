//! What a caller can say about stores.

use crate::bounded::SILENT;
use crate::cancellation::Cancellation;
use crate::environment::Environment;
use std::num::NonZeroUsize;
use std::time::Duration;

/// What a caller can say about stores. What it does not say comes from the environment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The address of the server, instead of that of the provider.
    pub endpoint_url: Option<String>,
    /// The region of an S3 bucket.
    pub region: Option<String>,
    /// How many requests for data may be under way at the same time, for each object.
    pub requests: NonZeroUsize,
    /// Whether data may go without TLS to another machine.
    pub allow_http: bool,
    /// Hears a line when a store has failed for some seconds and is asked again.
    pub on_wait: Option<fn(&str)>,
    /// Where credentials and all that is not said here come from. Without it, each client reads the environment when it is made.
    pub environment: Option<Environment>,
    /// Ends all requests.
    pub cancellation: Cancellation,
    /// How long a store may say nothing where it has little work. Tests wait no minute for it.
    pub(crate) silent: Duration,
}

impl Default for Options {
    /// Four requests, which keep a program below 96 MiB, and only TLS.
    fn default() -> Self {
        let requests = const { NonZeroUsize::new(4).unwrap() };
        Self {
            endpoint_url: None,
            region: None,
            requests,
            allow_http: false,
            on_wait: None,
            environment: None,
            cancellation: Cancellation::default(),
            silent: SILENT,
        }
    }
}
