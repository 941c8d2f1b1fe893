//! The client of a store: its address, its credentials, and how long it waits.

use crate::error::{self, refusal};
use crate::forgotten::Lister;
use crate::location::{Location, check_tls};
use crate::options::Options;
use crate::profile::Profile;
use crate::runtime::wait;
use http::{HeaderMap, HeaderName, HeaderValue};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum, resolve_bucket_region};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

/// A store that does not answer is given up after this time.
const CONNECT: Duration = Duration::from_secs(10);
const SILENT: Duration = Duration::from_secs(60);
/// A request may take so long as a whole: a part on a slow line.
const REQUEST: Duration = Duration::from_secs(600);
/// A request that fails is repeated so often, in this time.
const RETRIES: usize = 8;
const RETRYING: Duration = Duration::from_secs(90);

/// The client of a store, and the name of an object in it.
#[derive(Clone, Debug)]
pub struct Client {
    /// Reads, lists, writes small objects.
    pub store: Arc<dyn ObjectStore>,
    /// Writes large objects; `None` if the store is only read.
    pub parts: Option<Parts>,
    /// The object's name.
    pub key: Path,
}

/// How large objects are written.
#[derive(Clone)]
pub struct Parts {
    /// Sends parts.
    pub store: Arc<dyn MultipartStore>,
    /// Makes an object of the parts only if none has the name; `None` if the store cannot promise it.
    pub creating: Option<Arc<dyn MultipartStore>>,
    /// Lists the uploads of a bucket that are not completed, if the store can.
    pub lister: Option<Lister>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Client {
    /// A client for a location.
    ///
    /// # Errors
    /// If the address, the credentials or the region cannot be used.
    pub fn new(location: &Location, options: &Options) -> io::Result<Self> {
        match location {
            Location::S3 { bucket, key } => s3(bucket, key, options),
            Location::Google { bucket, key } => google(bucket, key, options),
            Location::Azure { container, blob } => azure(container, blob, options),
            Location::Http(address) => http(address, options),
        }
    }
}

fn http(address: &str, options: &Options) -> io::Result<Client> {
    check_tls(address, options.allow_http)?;
    let builder = HttpBuilder::new().with_url(address).with_client_options(client_options(address)).with_retry(retry());
    Ok(Client { store: Arc::new(builder.build().map_err(error::of)?), parts: None, key: Path::default() })
}

fn s3(bucket: &str, key: &Path, options: &Options) -> io::Result<Client> {
    let builder = s3_builder(bucket, options)?;
    let with = |client: ClientOptions| builder.clone().with_client_options(client).build().map_err(error::of);
    let address = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    let store = Arc::new(with(client_options(&address))?);
    let creating = Arc::new(with(only_if_new(client_options(&address), "if-none-match", "*"))?);
    let lister = Some(Lister { signer: store.clone(), connection: client_options(&address) });
    let parts = Parts { store: store.clone(), creating: Some(creating), lister };
    Ok(Client { store, parts: Some(parts), key: key.clone() })
}

fn s3_builder(bucket: &str, options: &Options) -> io::Result<AmazonS3Builder> {
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry());
    let mut builder = builder.with_checksum_algorithm(Checksum::SHA256);
    let has = |key: AmazonS3ConfigKey| builder.get_config_value(&key).is_some();
    let has_credentials = has(AmazonS3ConfigKey::AccessKeyId)
        || has(AmazonS3ConfigKey::WebIdentityTokenFile)
        || has(AmazonS3ConfigKey::ContainerCredentialsRelativeUri)
        || has(AmazonS3ConfigKey::ContainerCredentialsFullUri)
        || builder.get_config_value(&AmazonS3ConfigKey::SkipSignature).is_some_and(|value| value == "true");
    let profile = Profile::read(!has_credentials)?;
    let address = options.endpoint_url.clone().or_else(|| text("AWS_ENDPOINT_URL_S3"));
    let address = address.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint)).or(profile.endpoint_url);
    let region = options.region.clone().or_else(|| text("AWS_REGION")).or_else(|| text("AWS_DEFAULT_REGION"));
    let region = region.or(profile.region);
    if let Some(credentials) = profile.credentials {
        builder =
            builder.with_access_key_id(credentials.access_key_id).with_secret_access_key(credentials.secret_access_key);
        if let Some(token) = credentials.session_token {
            builder = builder.with_token(token);
        }
    }
    let region = match (region, &address) {
        (Some(region), _) => region,
        // Servers that are not Amazon's take any.
        (None, Some(_)) => "us-east-1".to_owned(),
        (None, None) => region_of(bucket)?,
    };
    builder = builder.with_region(region);
    if let Some(address) = address {
        check_tls(&address, options.allow_http)?;
        builder = builder.with_endpoint(address);
    }
    Ok(builder)
}

fn region_of(bucket: &str) -> io::Result<String> {
    wait(async { resolve_bucket_region(bucket, &client_options("")).await.map_err(error::of) })
}

fn google(bucket: &str, key: &Path, options: &Options) -> io::Result<Client> {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry());
    let emulator = text("STORAGE_EMULATOR_HOST").map(|host| match host.contains("://") {
        true => host,
        false => format!("http://{host}"),
    });
    if emulator.is_some() {
        // Google's own clients send nothing secret there either.
        builder = builder
            .with_credentials(Arc::new(StaticCredentialProvider::new(GcpCredential { bearer: "emulator".to_owned() })));
    }
    let address = options.endpoint_url.clone().or(emulator).unwrap_or_default();
    if !address.is_empty() {
        check_tls(&address, options.allow_http)?;
        builder = builder.with_base_url(&address);
    }
    let with = |client: ClientOptions| builder.clone().with_client_options(client).build().map_err(error::of);
    let store = Arc::new(with(client_options(&address))?);
    let creating = Arc::new(with(only_if_new(client_options(&address), "x-goog-if-generation-match", "0"))?);
    let parts = Parts { store: store.clone(), creating: Some(creating), lister: None };
    Ok(Client { store, parts: Some(parts), key: key.clone() })
}

fn azure(container: &str, blob: &Path, options: &Options) -> io::Result<Client> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container).with_retry(retry());
    // The names that Azure's own tools have, besides those that the client knows.
    let mut address = options.endpoint_url.clone();
    for (key, value) in azure_settings() {
        match key {
            AzureConfigKey::Endpoint => address = address.or(Some(value)),
            key => builder = builder.with_config(key, value),
        }
    }
    if builder.get_config_value(&AzureConfigKey::AccountName).is_none() {
        return Err(refusal("AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING must name the account"));
    }
    let address = address.or_else(|| builder.get_config_value(&AzureConfigKey::Endpoint)).unwrap_or_default();
    if !address.is_empty() {
        check_tls(&address, options.allow_http)?;
        builder = builder.with_endpoint(address.clone());
    }
    let store = Arc::new(builder.with_client_options(client_options(&address)).build().map_err(error::of)?);
    // Azure signs the condition, and the client does not let us add one.
    let parts = Parts { store: store.clone(), creating: None, lister: None };
    Ok(Client { store, parts: Some(parts), key: blob.clone() })
}

/// The settings in the variables of Azure's own tools.
fn azure_settings() -> Vec<(AzureConfigKey, String)> {
    let mut settings = Vec::new();
    if let Some(connection) = text("AZURE_STORAGE_CONNECTION_STRING") {
        settings.extend(connection_settings(&connection));
    }
    let named = [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
        ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
    ];
    settings.extend(named.into_iter().filter_map(|(variable, key)| Some((key, text(variable)?))));
    settings
}

fn connection_settings(connection: &str) -> Vec<(AzureConfigKey, String)> {
    let parts = connection.split(';').filter_map(|part| part.split_once('='));
    let key = |name: &str| match name {
        "AccountName" => Some(AzureConfigKey::AccountName),
        "AccountKey" => Some(AzureConfigKey::AccessKey),
        "SharedAccessSignature" => Some(AzureConfigKey::SasKey),
        "BlobEndpoint" => Some(AzureConfigKey::Endpoint),
        _ => None,
    };
    parts.filter_map(|(name, value)| Some((key(name)?, value.to_owned()))).collect()
}

/// How the client connects. An address without TLS has been checked before.
fn client_options(address: &str) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(address.starts_with("http://"))
        .with_user_agent(HeaderValue::from_static(concat!("phalanx/", env!("CARGO_PKG_VERSION"))))
        .with_connect_timeout(CONNECT)
        .with_read_timeout(SILENT)
        .with_timeout(REQUEST)
}

/// A client whose requests are fulfilled only if no object has the name.
fn only_if_new(client: ClientOptions, header: &'static str, value: &'static str) -> ClientOptions {
    let (name, value) = (HeaderName::from_static(header), HeaderValue::from_static(value));
    client.with_default_headers(HeaderMap::from_iter([(name, value)]))
}

fn retry() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: RETRIES, retry_timeout: RETRYING }
}

fn text(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_taken_apart() {
        let text = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=Zm9v==;BlobEndpoint=http://127.0.0.1:1/a;";
        let found = connection_settings(text);
        assert!(found.contains(&(AzureConfigKey::AccessKey, "Zm9v==".to_owned())));
        assert!(found.contains(&(AzureConfigKey::Endpoint, "http://127.0.0.1:1/a".to_owned())));
        assert_eq!(found.len(), 3);
    }
}
