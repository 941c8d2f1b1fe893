//! The Key Management Service of AWS. The crate `object_store` finds the credentials and signs requests.

use crate::http::{address, builder, causes, post, variable, wait};
use crate::{Call, Given, What};
use base64ct::{Base64, Encoding};
use object_store::aws::{AmazonS3Builder, AwsAuthorizer, AwsCredential};
use object_store::client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector};
use object_store::{ClientConfigKey, ClientOptions, RetryConfig};
use reqwest::Url;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long credentials may take. The rest of the time is for KMS.
const GIVEN: Duration = Duration::from_secs(15);
/// So long after it was asked first, a service that gives credentials is asked again.
const RETRIES: Duration = Duration::from_secs(3);
/// How long a service near the machine may take until it is reached, and as a whole. On a machine that is not in AWS there is
/// none.
const NEAR: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// What KMS answers. The error has its message as `message` or `Message`.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "CiphertextBlob")]
    ciphertext: Option<String>,
    #[serde(rename = "Plaintext")]
    plaintext: Option<String>,
    #[serde(rename = "__type")]
    kind: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
}

/// Has a run key wrapped or unwrapped by the key with this id, alias (`alias/NAME`) or ARN (after a `/`), in the region of
/// `?region=NAME`, of the ARN, or of the environment.
///
/// # Errors
/// In one line, if the service cannot be asked or refuses.
pub fn call(call: &Call) -> Result<Given, String> {
    let Place { key, region } = place(call.key)?;
    // AWS_ENDPOINT_URL does not count: it often names a server of objects, which must not see run keys.
    let server = match address("AWS_ENDPOINT_URL_KMS")? {
        Some(server) => server,
        // The regions of China have another domain.
        None if region.starts_with("cn-") => format!("https://kms.{region}.amazonaws.com.cn"),
        None => format!("https://kms.{region}.amazonaws.com"),
    };
    let context = serde_json::json!({ "purpose": call.purpose });
    let (action, body) = match call.what {
        What::Wrap(plaintext) => {
            ("Encrypt", serde_json::json!({ "KeyId": key, "Plaintext": plaintext, "EncryptionContext": context }))
        }
        What::Unwrap(wrapped) => {
            let blob = Base64::encode_string(wrapped);
            ("Decrypt", serde_json::json!({ "KeyId": key, "CiphertextBlob": blob, "EncryptionContext": context }))
        }
    };
    let (url, body) = (format!("{}/", server.trim_end_matches('/')), body.to_string());
    let (status, bytes) = wait(async {
        let request = signed(&url, action, &body, &region).await?;
        post(&server, &url, request.headers().clone(), body, None).await
    })?;
    let answer: Option<Answer> = serde_json::from_slice(&bytes).ok();
    if !status.is_success() {
        let error = answer.and_then(|Answer { kind, message, .. }| {
            let texts: Vec<String> = kind.into_iter().chain(message).filter(|text| !text.is_empty()).collect();
            (!texts.is_empty()).then(|| format!(": {}", texts.join(": ")))
        });
        return Err(format!("{server} answers {status}{}", error.unwrap_or_default()));
    }
    let given = answer.and_then(|answer| match call.what {
        What::Wrap(_) => Base64::decode_vec(&answer.ciphertext?).ok(),
        What::Unwrap(_) => answer.plaintext.map(String::into_bytes),
    });
    given.ok_or_else(|| format!("{server} does not answer like KMS"))
}

struct Place<'a> {
    key: &'a str,
    region: String,
}

fn place(uri: &str) -> Result<Place<'_>, String> {
    let (key, region) = match uri.split_once('?') {
        None => (uri, None),
        Some((key, query)) => (key, Some(query.strip_prefix("region=").unwrap_or_default())),
    };
    let key = key.strip_prefix('/').unwrap_or(key);
    let of_arn = key.strip_prefix("arn:").and_then(|rest| rest.split(':').nth(2));
    if let (Some(region), Some(of_arn)) = (region, of_arn)
        && region != of_arn
    {
        return Err(format!("the region of the URI, {region}, is not that of the ARN, {of_arn}"));
    }
    let region = match region.or(of_arn) {
        Some(region) => region.to_owned(),
        None => [variable("AWS_REGION")?, variable("AWS_DEFAULT_REGION")?]
            .into_iter()
            .flatten()
            .next()
            .ok_or("no region: neither the URI (?region=NAME) nor AWS_REGION has one")?,
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/:".contains(&byte);
    let is_region = !region.is_empty() && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !key.is_empty() && key.bytes().all(allowed) && is_region {
        Ok(Place { key, region })
    } else {
        Err("the URI has the form awskms://KEY?region=NAME, where KEY is an id, alias/NAME or /ARN".into())
    }
}

async fn signed(url: &str, action: &str, body: &str, region: &str) -> Result<HttpRequest, String> {
    // What the signing crate would stumble over.
    Url::parse(url).map_err(|e| format!("the address of the server cannot be read: {e}"))?;
    let credentials = credentials(region).await?;
    let is_plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain(&credentials.key_id) || !credentials.token.iter().all(is_plain) {
        return Err("the credentials of AWS have characters that no header may have".into());
    }
    let request = HttpRequest::new(HttpRequestBody::from(body.to_owned()));
    let (mut parts, body) = request.into_parts();
    let target = format!("TrentService.{action}");
    parts.method = "POST".parse().expect("a method");
    parts.uri = url.parse().map_err(|_| "the address of the server cannot be read")?;
    parts.headers.insert("content-type", "application/x-amz-json-1.1".parse().expect("a header"));
    parts.headers.insert("x-amz-target", target.parse().expect("a header"));
    let mut request = HttpRequest::from_parts(parts, body);
    let signing = AwsAuthorizer::new(&credentials, "kms", region).try_authorize(&mut request, None);
    signing.map_err(|e| format!("the request cannot be signed: {}", causes(&e)))?;
    Ok(request)
}

/// The credentials of the variables, of a web identity, of a container or of a machine in AWS.
async fn credentials(region: &str) -> Result<Arc<AwsCredential>, String> {
    let failed = |e: &dyn std::error::Error| format!("no credentials of AWS: {}", causes(e));
    let store = AmazonS3Builder::from_env().with_bucket_name("none").with_region(region);
    let retries = RetryConfig { max_retries: 2, retry_timeout: RETRIES, ..RetryConfig::default() };
    let store = store.with_http_connector(Connector).with_retry(retries).build().map_err(|e| failed(&e))?;
    let slow = |_| format!("no credentials of AWS: nobody gives them within {} seconds", GIVEN.as_secs());
    timeout(GIVEN, store.credentials().get_credential()).await.map_err(slow)?.map_err(|e| failed(&e))
}

/// How the services are reached that give credentials.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Those without TLS are near the machine, and a proxy would see what they give.
        let is_near = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        if !is_near {
            return ReqwestConnector::default().connect(options);
        }
        let client = builder().no_proxy().connect_timeout(NEAR.0).timeout(NEAR.1).build();
        client.map(HttpClient::new).map_err(|e| object_store::Error::Generic { store: "AWS", source: Box::new(e) })
    }
}
