//! Uploads that only the store knows: an S3 store lists those that are not completed.

use crate::error::wrong;
use crate::list::Pages;
use crate::signed::{Question, Signed};
use http::Method;
use object_store::path::Path;
use serde::Deserialize;
use std::io;

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

/// The uploads that are not completed, whichever machine began them: the names of their objects, which begin with
/// `prefix`, and the store's names of the uploads.
///
/// # Errors
/// If the store fails.
pub async fn unfinished(signed: &Signed, prefix: &str) -> io::Result<Vec<(String, String)>> {
    let (mut found, mut after, mut pages) = (Vec::new(), Vec::new(), Pages::default());
    loop {
        let mut query = vec![("uploads", String::new()), ("prefix", prefix.to_owned())];
        query.append(&mut after);
        let question = Question { method: Method::GET, object: Path::default(), query, headers: Vec::new() };
        let (status, body) = signed.ask(&question).await?;
        if !status.is_success() {
            return Err(wrong(format!("the store does not list unfinished uploads: {status}")));
        }
        let list: List = quick_xml::de::from_reader(&body[..]).map_err(refused)?;
        if list.is_truncated {
            let names = list.uploads.iter().map(|one| one.key.len() + one.upload_id.len()).sum();
            pages.check(list.uploads.iter().map(|one| (&one.key, &one.upload_id)), names)?;
        }
        let own = list.uploads.into_iter().filter(|one| one.key.starts_with(prefix));
        found.extend(own.map(|one| (one.key, one.upload_id)));
        let (Some(key), true) = (list.next_key_marker, list.is_truncated) else { return Ok(found) };
        after = vec![("key-marker", key)];
        after.extend(list.next_upload_id_marker.map(|id| ("upload-id-marker", id)));
    }
}

/// An answer that is no list.
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
