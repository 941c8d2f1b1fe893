//! The options for object stores. A program that was built without stores has none.

use clap::Args;

/// The heading of options for stores.
#[cfg(feature = "stores")]
pub const HEADING: &str = "Object stores (a PATH may be s3://, gs://, az:// or https://)";

/// What can be said about object stores.
#[cfg(feature = "stores")]
#[derive(Args, Default)]
#[group(skip)]
pub struct StoreArgs {
    /// Reach the object store at this address
    ///
    /// For stores that speak like S3, Google Cloud Storage or Azure, and are not theirs. AWS_ENDPOINT_URL and the profile of
    /// the AWS tools say it too.
    #[arg(long, value_name = "URL", help_heading = HEADING)]
    endpoint_url: Option<String>,
    /// The region of an S3 bucket
    ///
    /// Without it, it is that of AWS_REGION or of the profile of the AWS tools, or the store is asked.
    #[arg(long, value_name = "REGION", help_heading = HEADING)]
    region: Option<String>,
    /// Requests at the same time, 1 to 64 (default: 4)
    ///
    /// For each object. Each takes 8 MiB of memory, or more where an object of more than 78 GiB is written.
    #[arg(long, value_name = "N", help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..=64))]
    requests: Option<u16>,
    /// Reach other machines without TLS
    #[arg(long, help_heading = HEADING)]
    allow_http: bool,
}

#[cfg(feature = "stores")]
impl StoreArgs {
    /// Makes the stores reachable.
    pub fn install(self) {
        let mut options = phalanx_store::Options::default();
        let requests = self.requests.and_then(|requests| std::num::NonZeroUsize::new(requests.into()));
        options.requests = requests.unwrap_or(options.requests);
        (options.endpoint_url, options.region, options.allow_http) = (self.endpoint_url, self.region, self.allow_http);
        options.on_wait = Some(|line| phalanx_host::lines::complain(line));
        phalanx_host::file::install_stores(phalanx_store::Stores::new(options));
    }
}

/// This program was built without stores.
#[cfg(not(feature = "stores"))]
#[derive(Args, Default)]
#[group(skip)]
pub struct StoreArgs {}

#[cfg(not(feature = "stores"))]
impl StoreArgs {
    /// There are none.
    pub fn install(self) {}
}
