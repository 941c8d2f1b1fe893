//! Uploads that only the store knows: an S3 store lists those that are not completed.

use crate::connection::Connector;
use crate::error::{self, wrong};
use http::{Method, Request};
use http_body_util::BodyExt;
use object_store::client::{HttpClient, HttpRequestBody};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The address of the list is used at once.
const VALID: Duration = Duration::from_secs(300);

/// A list of uploads in the answer of a store.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct List {
    #[serde(default, rename = "Upload")]
    uploads: Vec<Listed>,
    #[serde(default)]
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_upload_id_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    key: String,
    upload_id: String,
}

/// How the uploads of a bucket are listed.
#[derive(Clone)]
pub struct Lister {
    /// Signs the request.
    pub signer: Arc<dyn Signer>,
    /// How the client connects.
    pub connector: Connector,
    /// Whether the store is reached without TLS.
    pub allow_http: bool,
}

impl Lister {
    /// The uploads of an object that are not completed, whichever machine began them.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn unfinished(&self, object: &Path) -> io::Result<Vec<String>> {
        let http = HttpClient::new(self.connector.client(self.allow_http).map_err(refused)?);
        let mut found = Vec::new();
        let mut after = Vec::new();
        loop {
            let query = [("uploads", ""), ("prefix", object.as_ref())].map(|(name, value)| (name, value.to_owned()));
            let options = SignedUrlOptions::new().with_query(query.into_iter().chain(after));
            let url = self.signer.signed_url_opts(Method::GET, &Path::default(), VALID, &options).await;
            let request = Request::get(url.map_err(error::of)?.as_str()).body(HttpRequestBody::empty());
            let answer = http.execute(request.map_err(io::Error::other)?).await.map_err(refused)?;
            if !answer.status().is_success() {
                return Err(wrong(format!("the store does not list unfinished uploads: {}", answer.status())));
            }
            let body = answer.into_body().collect().await.map_err(refused)?.to_bytes();
            let list: List = quick_xml::de::from_reader(&body[..]).map_err(refused)?;
            // Other objects may begin with the same name.
            found.extend(list.uploads.into_iter().filter(|one| one.key == object.as_ref()).map(|one| one.upload_id));
            let (Some(key), true) = (list.next_key_marker, list.is_truncated) else { return Ok(found) };
            after = vec![("key-marker", key)];
            after.extend(list.next_upload_id_marker.map(|id| ("upload-id-marker", id)));
        }
    }
}

/// An answer that is no list. Its text may have the signed address.
fn refused<E>(_: E) -> io::Error {
    wrong("the store does not list unfinished uploads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = "<ListMultipartUploadsResult><Bucket>b</Bucket><KeyMarker/><NextKeyMarker>k&amp;2</NextKeyMarker>\
                    <IsTruncated>true</IsTruncated><Upload><Key>k&amp;1</Key><UploadId>u</UploadId><Owner/></Upload>\
                    <Upload><Key>k</Key><UploadId>v</UploadId></Upload></ListMultipartUploadsResult>";
        let list: List = quick_xml::de::from_reader(text.as_bytes()).unwrap();
        assert_eq!((list.uploads[0].key.as_str(), list.uploads[1].upload_id.as_str()), ("k&1", "v"));
        assert_eq!((list.next_key_marker.as_deref(), list.is_truncated), (Some("k&2"), true));
        let empty: List = quick_xml::de::from_reader(&b"<R><IsTruncated>false</IsTruncated></R>"[..]).unwrap();
        assert!(empty.uploads.is_empty());
    }
}
