//! The client of a store: its address and its credentials.

use crate::cancellation::Cancellation;
use crate::connection::{self, Connector, retry};
use crate::environment::Environment;
use crate::error::{self, refusal};
use crate::list::{List, Lists};
use crate::location::{Location, checked_address};
use crate::options::Options;
use crate::profile::Profile;
use crate::runtime::wait;
use crate::signed::Signed;
use http::HeaderValue;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredentialProvider, Checksum, resolve_bucket_region};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectStore, StaticCredentialProvider};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The client of a store, and the name of an object in it.
#[derive(Clone)]
pub struct Client {
    /// Reads, writes small objects.
    pub store: Arc<dyn ObjectStore>,
    /// Lists objects; `None` if the store has no lists.
    lists: Option<Lists>,
    /// Writes large objects; `None` if the store is only read.
    pub parts: Option<Parts>,
    /// The object's name.
    pub key: Path,
    /// The store, as records name it: its address and whose it is.
    pub place: String,
    /// The folder of what is remembered between runs.
    pub state: Option<PathBuf>,
    /// Ends its requests.
    pub cancellation: Cancellation,
}

/// How large objects are written.
#[derive(Clone)]
pub struct Parts {
    /// Sends parts.
    pub store: Arc<dyn MultipartStore>,
    /// Makes an object of the parts only if none has the name; `None` if the store cannot promise it.
    pub creating: Option<Arc<dyn MultipartStore>>,
    /// Makes an object of the parts only in the place of the version with an etag; `None` if the store cannot promise it.
    pub replacing: Option<Replacing>,
    /// Sends parts without checksums of their own, for uploads that also have copied parts.
    pub plain: Option<Plain>,
    /// Lists what is not completed and copies parts, if the store can.
    pub signed: Option<Signed>,
}

/// Makes the client that replaces only the version with this etag.
pub type Replacing = Arc<dyn Fn(&str) -> io::Result<Arc<dyn MultipartStore>> + Send + Sync>;

/// Makes the client that sends parts without checksums of their own.
pub type Plain = Arc<dyn Fn() -> io::Result<Arc<dyn MultipartStore>> + Send + Sync>;

impl Parts {
    /// What makes an object of the parts only in the place of the version with this etag, as far as the store promises it.
    ///
    /// # Errors
    /// If the client cannot be made.
    pub fn over(&self, e_tag: Option<&str>) -> io::Result<Arc<dyn MultipartStore>> {
        match (&self.replacing, e_tag) {
            (Some(replacing), Some(e_tag)) => replacing(e_tag),
            _ => Ok(self.store.clone()),
        }
    }
}

/// The stores have credentials and signed addresses, so only the name is shown.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.key)
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Client {
    /// The client of another object in the same store.
    pub fn of(&self, key: Path) -> Self {
        Self { key, ..self.clone() }
    }

    /// How large objects are written.
    ///
    /// # Errors
    /// If the store is only read.
    pub fn writing(&self) -> io::Result<&Parts> {
        self.parts.as_ref().ok_or_else(|| refusal("objects at https:// can only be read"))
    }

    /// Lists the objects of the folder that has the name.
    ///
    /// # Errors
    /// If the store has no lists.
    pub fn list(&self) -> io::Result<List> {
        let lists = self.lists.as_ref().ok_or_else(|| refusal("servers at https:// list no folders"))?;
        Ok(lists.folder(&self.key))
    }

    /// A client for a location.
    ///
    /// # Errors
    /// If the address, the credentials or the region cannot be used.
    pub fn new(location: &Location, options: &Options) -> io::Result<Self> {
        let environment = options.environment.clone().unwrap_or_else(Environment::now);
        let Reached { store, lists, parts, place } = match location {
            Location::S3 { bucket, .. } => s3(bucket, options, &environment)?,
            Location::Google { bucket, .. } => google(bucket, options, &environment)?,
            Location::Azure { container, .. } => azure(container, options, &environment)?,
            Location::Http(address) => http(address, options)?,
        };
        let (key, state) = (location.key(), environment.state().map(Into::into));
        Ok(Self { store, lists, parts, key, place, state, cancellation: options.cancellation.clone() })
    }

    /// Waits for what comes of some requests, unless they are ended.
    ///
    /// # Errors
    /// Those of the requests, and if they are ended.
    pub fn wait<T>(&self, requests: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        wait(self.cancellation.or(requests))
    }
}

/// A store that is reached.
struct Reached {
    store: Arc<dyn ObjectStore>,
    lists: Option<Lists>,
    parts: Option<Parts>,
    place: String,
}

fn http(address: &str, options: &Options) -> io::Result<Reached> {
    let address = checked_address(address, options.allow_http)?;
    let builder = HttpBuilder::new()
        .with_url(&address)
        .with_client_options(connection::options(&address))
        .with_http_connector(Connector::to(&address, options).following())
        .with_retry(retry());
    let store = Arc::new(builder.build().map_err(error::of)?);
    Ok(Reached { store, lists: None, parts: None, place: address })
}

fn s3(bucket: &str, options: &Options, environment: &Environment) -> io::Result<Reached> {
    let (builder, address) = s3_builder(bucket, options, environment)?;
    let builder = builder.with_client_options(connection::options(&address)).with_retry(retry());
    let connector = Connector::to(&address, options);
    let mut summed = builder.clone().with_checksum_algorithm(Checksum::SHA256);
    if let Some(algorithm) = environment.text("AWS_CHECKSUM_ALGORITHM") {
        summed = summed.with_config(AmazonS3ConfigKey::Checksum, algorithm);
    }
    let store = Arc::new(summed.clone().with_http_connector(connector.clone()).build().map_err(error::of)?);
    let made = |builder: AmazonS3Builder, connector, credentials: &AwsCredentialProvider| {
        let builder = builder.with_credentials(credentials.clone()).with_http_connector(connector);
        Ok::<Arc<dyn MultipartStore>, _>(Arc::new(builder.build().map_err(error::of)?))
    };
    let credentials = store.credentials().clone();
    let creating = connector.clone().with_header("if-none-match", HeaderValue::from_static("*"));
    let creating = made(summed.clone(), creating, &credentials)?;
    let allow_http = address.starts_with("http://");
    let signed = Signed::new(store.clone(), bucket, connector.clone(), allow_http);
    let plain: Plain = {
        let (connector, credentials) = (connector.clone(), credentials.clone());
        Arc::new(move || made(builder.clone(), connector.clone(), &credentials))
    };
    let replacing: Replacing = Arc::new(move |e_tag| {
        let e_tag = HeaderValue::from_str(e_tag).map_err(io::Error::other)?;
        made(summed.clone(), connector.clone().with_header("if-match", e_tag), &credentials)
    });
    let parts = Parts {
        store: store.clone(),
        creating: Some(creating),
        replacing: Some(replacing),
        plain: Some(plain),
        signed: Some(signed),
    };
    Ok(Reached { lists: Some(Lists::of(store.clone())), store, parts: Some(parts), place: address })
}

/// What is known of a bucket, and the address, which is empty if it is Amazon's own.
fn s3_builder(bucket: &str, options: &Options, environment: &Environment) -> io::Result<(AmazonS3Builder, String)> {
    use AmazonS3ConfigKey as Key;
    let mut builder = AmazonS3Builder::new();
    for (key, value) in settings::<Key>(environment, "AWS_").into_iter().filter(|(key, _)| *key != Key::Checksum) {
        builder = builder.with_config(key, value);
    }
    // After the settings, among which other programs have a bucket of their own.
    builder = builder.with_bucket_name(bucket);
    let has = |key| builder.get_config_value(&key).is_some();
    let has_credentials = [
        Key::AccessKeyId,
        Key::WebIdentityTokenFile,
        Key::ContainerCredentialsRelativeUri,
        Key::ContainerCredentialsFullUri,
    ];
    let is_public = builder.get_config_value(&Key::SkipSignature).is_some_and(|value| value == "true");
    let profile = Profile::read(environment, !has_credentials.into_iter().any(has) && !is_public)?;
    if let Some(credentials) = profile.credentials {
        builder =
            builder.with_access_key_id(credentials.access_key_id).with_secret_access_key(credentials.secret_access_key);
        if let Some(token) = credentials.session_token {
            builder = builder.with_token(token);
        }
    }
    for key in [Key::AccessKeyId, Key::SecretAccessKey, Key::Token] {
        if builder.get_config_value(&key).is_some_and(|value| !value.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(refusal("the credentials have characters that none have"));
        }
    }
    let address = options.endpoint_url.clone().or_else(|| environment.text("AWS_ENDPOINT_URL_S3"));
    let address = address
        .or_else(|| environment.text("AWS_ENDPOINT_URL"))
        .or_else(|| environment.text("AWS_ENDPOINT"))
        .or(profile.endpoint_url);
    let address = address.map(|address| checked_address(&address, options.allow_http)).transpose()?;
    let region = options
        .region
        .clone()
        .or_else(|| environment.text("AWS_REGION"))
        .or_else(|| environment.text("AWS_DEFAULT_REGION"));
    let region = match (region.or(profile.region), &address) {
        (Some(region), _) => region,
        // Servers that are not Amazon's take any.
        (None, Some(_)) => "us-east-1".to_owned(),
        (None, None) => region_of(bucket, &options.cancellation)?,
    };
    if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(refusal("the region has characters that none has"));
    }
    builder = builder.with_region(region);
    let Some(address) = address else { return Ok((builder, String::new())) };
    // With this setting the client takes an address for that of a bucket, whichever that is.
    let is_of_bucket = builder.get_config_value(&Key::VirtualHostedStyleRequest).is_some_and(|value| is_on(&value));
    if is_of_bucket && !address.split_once("://").is_some_and(|(_, host)| host.starts_with(&format!("{bucket}."))) {
        return Err(refusal(format!(
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST is set, so the host of the address must begin with \"{bucket}.\""
        )));
    }
    // The client knows two settings for it, and only one of them was checked.
    Ok((builder.with_endpoint(&address).with_config(Key::S3Endpoint, &address), address))
}

/// Whether a setting is not switched off. What cannot be read is an error later.
fn is_on(value: &str) -> bool {
    !["0", "false", "off", "no", "n"].contains(&&*value.to_ascii_lowercase())
}

fn region_of(bucket: &str, cancellation: &Cancellation) -> io::Result<String> {
    let options = connection::options("");
    wait(cancellation.or(async { resolve_bucket_region(bucket, &options).await.map_err(error::of) }))
}

fn google(bucket: &str, options: &Options, environment: &Environment) -> io::Result<Reached> {
    let mut builder = GoogleCloudStorageBuilder::new().with_retry(retry());
    for (key, value) in settings::<GoogleConfigKey>(environment, "GOOGLE_") {
        builder = builder.with_config(key, value);
    }
    // As for S3.
    builder = builder.with_bucket_name(bucket);
    let emulator = environment.text("STORAGE_EMULATOR_HOST").map(|host| match host.contains("://") {
        true => host,
        false => format!("http://{host}"),
    });
    if emulator.is_some() {
        // Google's own clients send nothing secret there either.
        let none = GcpCredential { bearer: "emulator".to_owned() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(none)));
    }
    let address = options.endpoint_url.clone().or(emulator).or_else(|| environment.text("GOOGLE_BASE_URL"));
    let address = address.map(|address| checked_address(&address, options.allow_http)).transpose()?.unwrap_or_default();
    if !address.is_empty() {
        builder = builder.with_base_url(address.trim_end_matches('/'));
    }
    let builder = builder.with_client_options(connection::options(&address));
    let store = Arc::new(builder.with_http_connector(Connector::to(&address, options)).build().map_err(error::of)?);
    // Google takes no condition for an object of several parts: <https://cloud.google.com/storage/docs/request-preconditions>.
    let parts = Parts { store: store.clone(), creating: None, replacing: None, plain: None, signed: None };
    Ok(Reached { lists: Some(Lists::of(store.clone())), store, parts: Some(parts), place: address })
}

fn azure(container: &str, options: &Options, environment: &Environment) -> io::Result<Reached> {
    use AzureConfigKey as Key;
    let mut builder = MicrosoftAzureBuilder::new().with_container_name(container).with_retry(retry());
    let mut address = options.endpoint_url.clone();
    // The names that Azure's own tools have, besides those that the client knows.
    for (key, value) in azure_settings(environment).into_iter().chain(settings(environment, "AZURE_")) {
        match key {
            Key::Endpoint => address = address.or(Some(value)),
            // It would bring an address of its own.
            Key::UseEmulator => {}
            key if builder.get_config_value(&key).is_some_and(|known| known != "false") => {}
            key => builder = builder.with_config(key, value),
        }
    }
    let Some(account) = builder.get_config_value(&Key::AccountName) else {
        return Err(refusal("AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING must name the account"));
    };
    let address = address.map(|address| checked_address(&address, options.allow_http)).transpose()?.unwrap_or_default();
    if !address.is_empty() {
        builder = builder.with_endpoint(address.trim_end_matches('/').to_owned());
    }
    let builder = builder.with_client_options(connection::options(&address));
    let store = Arc::new(builder.with_http_connector(Connector::to(&address, options)).build().map_err(error::of)?);
    // Azure signs the condition, and the client does not let us add one.
    let parts = Parts { store: store.clone(), creating: None, replacing: None, plain: None, signed: None };
    Ok(Reached {
        lists: Some(Lists::of(store.clone())),
        store,
        parts: Some(parts),
        place: format!("{account} {address}"),
    })
}

/// The settings in the variables of Azure's own tools.
fn azure_settings(environment: &Environment) -> Vec<(AzureConfigKey, String)> {
    let mut settings = Vec::new();
    if let Some(connection) = environment.text("AZURE_STORAGE_CONNECTION_STRING") {
        settings.extend(connection_settings(&connection));
    }
    let named = [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
        ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
    ];
    settings.extend(named.into_iter().filter_map(|(variable, key)| Some((key, environment.text(variable)?))));
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

/// The settings that the client knows, in variables with this prefix. An empty one is none.
fn settings<K: FromStr>(environment: &Environment, prefix: &str) -> Vec<(K, String)> {
    let own = environment.texts().filter(|(name, _)| name.starts_with(prefix));
    own.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::lies::{answer, server};
    use crate::upload::Upload;
    use object_store::ObjectStoreExt;
    use phalanx_host::file::NewObject;
    use std::sync::OnceLock;

    #[test]
    fn a_connection_string_is_taken_apart() {
        let text = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=Zm9v==;BlobEndpoint=http://127.0.0.1:1/a;";
        let found = connection_settings(text);
        assert!(found.contains(&(AzureConfigKey::AccessKey, "Zm9v==".to_owned())));
        assert!(found.contains(&(AzureConfigKey::Endpoint, "http://127.0.0.1:1/a".to_owned())));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_client_reads_nothing_but_its_environment() {
        let home = tempfile::tempdir().unwrap();
        let config =
            "[default]\nendpoint_url = http://127.0.0.1:2\n[profile work]\nendpoint_url = http://127.0.0.1:3\n";
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        let place = |url: &str, more: &[(&str, &str)]| {
            let variables = more.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let variables = variables.chain([("HOME".into(), home.path().into())]);
            let environment = Some(Environment::new(variables, Some("/state".into())));
            let client = Client::new(
                &Location::of(&crate::location::url(url).unwrap()).unwrap(),
                &Options { environment, ..Options::default() },
            );
            client.map(|client| (client.place, client.state.unwrap())).map_err(|e| e.to_string())
        };
        let at = |address: &str| Ok((address.to_owned(), "/state".into()));
        assert_eq!(place("s3://b/k", &[]), at("http://127.0.0.1:2/"));
        assert_eq!(place("s3://b/k", &[("AWS_PROFILE", "work")]), at("http://127.0.0.1:3/"));
        assert_eq!(place("s3://b/k", &[("AWS_ENDPOINT_URL", "http://127.0.0.1:4")]), at("http://127.0.0.1:4/"));
        assert!(place("s3://b/k", &[("AWS_PROFILE", "none")]).unwrap_err().contains("no AWS profile none"));
        assert_eq!(place("gs://b/k", &[("STORAGE_EMULATOR_HOST", "127.0.0.1:5")]), at("http://127.0.0.1:5/"));
        assert!(place("az://c/b", &[]).unwrap_err().contains("AZURE_STORAGE_ACCOUNT"));
        let connection = "AccountName=a;AccountKey=Zm9v;BlobEndpoint=http://127.0.0.1:6/a;";
        assert_eq!(place("az://c/b", &[("AZURE_STORAGE_CONNECTION_STRING", connection)]), at("a http://127.0.0.1:6/a"));
    }

    #[test]
    fn nothing_that_shows_a_client_shows_a_secret() {
        let azure = |name: &str, value: &str| {
            vec![("AZURE_STORAGE_ACCOUNT".to_owned(), "a".to_owned()), (name.to_owned(), value.to_owned())]
        };
        let amazon = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
            .map(|name| (name.to_owned(), "c2VjcmV0".to_owned()));
        let region = ("AWS_REGION".to_owned(), "r".to_owned());
        for (url, variables) in [
            ("https://h/x.phx?X-Amz-Signature=c2VjcmV0", Vec::new()),
            ("az://c/x.phx", azure("AZURE_STORAGE_KEY", "c2VjcmV0")),
            ("az://c/x.phx", azure("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=c2VjcmV0")),
            ("s3://b/x.phx", amazon.into_iter().chain([region]).collect()),
        ] {
            let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
            let options = Options { environment: Some(Environment::new(variables, None)), ..Options::default() };
            let (url, new) = (crate::location::url(url).unwrap(), NewObject { replaces: true, ..NewObject::default() });
            let client = Client::new(&Location::of(&url).unwrap(), &options).unwrap();
            let mut shown = format!("{client:?} {url:?} {options:?}");
            if client.parts.is_some() {
                let (upload, folder) = (Upload::at(&url, new, &options).unwrap(), Folder::at(&url, &options).unwrap());
                shown += &format!("{upload:?} {folder:?}");
            }
            assert!(shown.contains("Client(") && !shown.contains("c2VjcmV0"), "{shown}");
        }
    }

    /// The path of the first request for an object, with these variables.
    fn asked(url: &str, variables: &[(&str, &str)]) -> String {
        let path = Arc::new(OnceLock::new());
        let endpoint_url = {
            let path = path.clone();
            Some(server(move |head, stream| {
                path.get_or_init(|| head.split(' ').nth(1).unwrap().to_owned());
                answer(stream, "404 Not Found", "")
            }))
        };
        let environment =
            Environment::new(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())), None);
        let options = Options { endpoint_url, environment: Some(environment), ..Options::default() };
        let client = Client::new(&Location::of(&crate::location::url(url).unwrap()).unwrap(), &options).unwrap();
        let found = client.wait(async { client.store.head(&client.key).await.map_err(error::of) });
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::NotFound);
        path.get().unwrap().clone()
    }

    #[test]
    fn the_url_names_the_bucket() {
        for name in ["AWS_BUCKET", "AWS_BUCKET_NAME"] {
            let variables = [(name, "other"), ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
            assert_eq!(asked("s3://bucket/key", &variables), "/bucket/key", "{name}");
        }
        let style = |value: &str, address: &str, bucket: &str| {
            let variables = [("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", value), ("AWS_ENDPOINT_URL", address)];
            let variables = variables.map(|(name, value)| (name.into(), value.into()));
            let options = Options { environment: Some(Environment::new(variables, None)), ..Options::default() };
            let url = crate::location::url(&format!("s3://{bucket}/key")).unwrap();
            Client::new(&Location::of(&url).unwrap(), &options).map(drop).map_err(|e| e.to_string())
        };
        for value in ["true", "1", "Yes"] {
            let refused = style(value, "https://other.oss.example", "bucket").unwrap_err();
            assert_eq!(
                refused,
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST is set, so the host of the address must begin with \"bucket.\""
            );
            assert_eq!(style(value, "https://bucket.oss.example", "bucket"), Ok(()));
            assert!(style(value, "https://bucket.oss.example", "buck").is_err());
        }
        assert_eq!(style("false", "https://other.oss.example", "bucket"), Ok(()));
        for name in ["GOOGLE_BUCKET", "GOOGLE_BUCKET_NAME"] {
            let variables = [(name, "other"), ("GOOGLE_SKIP_SIGNATURE", "true")];
            assert_eq!(asked("gs://bucket/key", &variables), "/bucket/key", "{name}");
        }
        let account = "AccountName=a;AccountKey=Zm9v;";
        for name in ["AZURE_CONTAINER_NAME", "AZURE_STORAGE_CONTAINER_NAME"] {
            let variables = [(name, "other"), ("AZURE_STORAGE_CONNECTION_STRING", account)];
            assert_eq!(asked("az://bucket/key", &variables), "/bucket/key", "{name}");
        }
    }
}
