//! What a caller can say about stores.

use std::num::NonZeroUsize;

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
}

impl Default for Options {
    /// Four requests, which keep a program below 96 MiB, and only TLS.
    fn default() -> Self {
        let requests = const { NonZeroUsize::new(4).unwrap() };
        Self { endpoint_url: None, region: None, requests, allow_http: false, on_wait: None }
    }
}
