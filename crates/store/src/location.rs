//! Where an object is: the store and the object's name in it.

use crate::error::refusal;
use object_store::path::Path;
use phalanx_host::file::Url;
use std::io;
use std::net::IpAddr;

/// The URL in a text.
///
/// # Errors
/// If there is none.
pub fn url(text: &str) -> io::Result<Url> {
    Url::of(std::path::Path::new(text)).ok_or_else(|| refusal("not the URL of an object"))
}

/// Why a URL with a user or a password is refused.
const CREDENTIALS: &str = "credentials do not belong in a URL";

/// Why a name is refused.
pub const BAD_NAME: &str = "its name has empty parts, . or .., or characters that names of objects must not have";

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a bucket of S3 or of a store that speaks like it.
    S3 {
        /// The bucket.
        bucket: String,
        /// The name.
        key: Path,
    },
    /// In a bucket of Google Cloud Storage.
    Google {
        /// The bucket.
        bucket: String,
        /// The name.
        key: Path,
    },
    /// In a container of Azure Blob Storage.
    Azure {
        /// The container.
        container: String,
        /// The name.
        blob: Path,
    },
    /// At a server that gives ranges.
    Http(String),
}

impl Location {
    /// Reads a URL. Names are taken as they stand there, as the tools of the providers take them: `%20` is no space.
    ///
    /// # Errors
    /// If there is no bucket or no name, or if the name cannot be that of an object.
    pub fn of(url: &Url) -> io::Result<Self> {
        let text = url.text();
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refusal("not the URL of an object"))?;
        if matches!(scheme, "http" | "https") {
            return Ok(Location::Http(text.to_owned()));
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || key.is_empty() || key.ends_with('/') {
            return Err(refusal("it names no object: BUCKET/NAME is needed"));
        }
        Self::within(scheme, bucket, key)
    }

    /// Reads the URL of a folder: a bucket, or the beginning of names in it, which a slash follows.
    ///
    /// # Errors
    /// If there is no bucket, or if names cannot begin so.
    pub fn of_folder(url: &Url) -> io::Result<Self> {
        let (scheme, rest) = url.text().split_once("://").ok_or_else(|| refusal("not the URL of a folder"))?;
        if matches!(scheme, "http" | "https") {
            return Err(refusal("servers at https:// list no folders"));
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let name = key.strip_suffix('/').unwrap_or(key);
        if key == "/" || name.ends_with('/') {
            return Err(refusal(BAD_NAME));
        }
        Self::within(scheme, bucket, name)
    }

    /// The name in the bucket. It is empty for an address, which is that of the object itself.
    pub fn key(&self) -> Path {
        match self {
            Location::S3 { key, .. } | Location::Google { key, .. } | Location::Azure { blob: key, .. } => key.clone(),
            Location::Http(_) => Path::default(),
        }
    }

    /// A name in a bucket.
    fn within(scheme: &str, bucket: &str, key: &str) -> io::Result<Self> {
        if bucket.contains('@') {
            return Err(refusal(CREDENTIALS));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_plain) || [".", ".."].contains(&bucket) {
            return Err(refusal("no bucket can have this name"));
        }
        if key.starts_with('/') {
            return Err(refusal(BAD_NAME));
        }
        let bad = |_| refusal(BAD_NAME);
        let key = Path::parse(key).map_err(bad)?;
        let bucket = bucket.to_owned();
        match scheme {
            "s3" => Ok(Location::S3 { bucket, key }),
            "gs" => Ok(Location::Google { bucket, key }),
            _ => Ok(Location::Azure { container: bucket, blob: key }),
        }
    }
}

/// An address as clients take it. Without TLS it must be that of this machine.
///
/// # Errors
/// If it is not a URL, has credentials, or TLS is missing.
pub fn checked_address(address: &str, allow_http: bool) -> io::Result<String> {
    let url = url::Url::parse(address).map_err(|e| refusal(format!("the address of the store is not a URL: {e}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refusal(CREDENTIALS));
    }
    let text = url.to_string();
    match url.scheme() {
        "https" => Ok(text),
        "http" if is_local(&text) || allow_http => Ok(text),
        "http" => Err(refusal("it is reached without TLS: --allow-http insists on it")),
        other => Err(refusal(format!("the address of the store begins with {other}, not with https"))),
    }
}

/// Whether an address is that of this machine.
pub fn is_local(address: &str) -> bool {
    match url::Url::parse(address).ok().as_ref().and_then(url::Url::host) {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Whether a host is this machine, or a service that gives credentials to the machines of a cloud.
pub fn is_near(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_link_local(),
        // Amazon's services have addresses of fd00:ec2::/32.
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unicast_link_local() || ip.segments()[..2] == [0xfd00, 0x0ec2],
        Err(_) => ["localhost", "metadata.google.internal"].contains(&host),
    }
}

/// Whether an address is reached by TLS.
pub fn is_tls(address: &str) -> bool {
    address.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(location: Location) -> String {
        match location {
            Location::Http(address) => address,
            location => location.key().to_string(),
        }
    }

    fn of(text: &str) -> Result<Location, String> {
        let url = super::url(text).map_err(|e| e.to_string())?;
        Location::of(&url).map_err(|e| e.to_string())
    }

    #[test]
    fn names_are_taken_as_they_stand() {
        for name in ["run42.h5.phx", "a b/c%20d.phx", "ü/#1?.phx"] {
            let found = of(&format!("s3://bucket/{name}")).unwrap();
            assert_eq!(key(found), name);
            assert_eq!(key(of(&format!("az://bucket/{name}")).unwrap()), name);
        }
    }

    #[test]
    fn what_names_no_object_is_refused() {
        for text in
            ["s3://", "s3://bucket", "s3://bucket/", "gs://bucket/dir/", "s3:///key", "az://c//b", "s3://b/../k"]
        {
            assert!(of(text).is_err(), "{text}");
        }
        let with_secret = checked_address("https://user:secret@host/x", false);
        assert!(with_secret.unwrap_err().to_string().contains("credentials"));
        assert!(of("s3://id:secret@bucket/key").unwrap_err().contains("credentials"));
    }

    #[test]
    fn folders_are_buckets_or_names() {
        let folder = |text: &str| {
            let url = super::url(text).map_err(|e| e.to_string())?;
            Location::of_folder(&url).map(key).map_err(|e| e.to_string())
        };
        for (text, name) in [("s3://b", ""), ("s3://b/", ""), ("gs://b/dir/", "dir"), ("az://c/a/b c", "a/b c")] {
            assert_eq!(folder(text).as_deref(), Ok(name), "{text}");
        }
        for text in ["s3://", "s3:///dir", "s3://b//", "s3://b/a//", "s3://b/../a", "https://h/dir"] {
            assert!(folder(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_reached_without_tls() {
        for address in ["https://s3.example", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
            assert!(checked_address(address, false).is_ok(), "{address}");
        }
        assert_eq!(checked_address(" HTTP:127.0.0.1:1", false).unwrap(), "http://127.0.0.1:1/");
        for address in ["http://s3.example", "http://127.0.0.1.example", "ftp://127.0.0.1", "nonsense"] {
            assert!(checked_address(address, false).is_err(), "{address}");
        }
        assert!(checked_address("http://s3.example", true).is_ok());
    }

    #[test]
    fn services_that_give_credentials_are_near() {
        for host in
            ["127.0.0.1", "[::1]", "localhost", "169.254.169.254", "169.254.170.2", "[fd00:ec2::254]", "[fe80::1]"]
        {
            assert!(is_near(host), "{host}");
        }
        for host in ["10.0.0.1", "s3.example", "localhost.example", "[fd00::1]", "169.253.0.1", ""] {
            assert!(!is_near(host), "{host}");
        }
    }
}
