//! Whether an object is there, and whether it is the one that was written.

use crate::client::Client;
use crate::error;
use object_store::{ObjectMeta, ObjectStoreExt, UpdateVersion};
use std::io;

/// Whether the object exists, as far as the credentials let us know.
///
/// # Errors
/// If the store fails.
pub fn is_there(client: &Client) -> io::Result<bool> {
    let promises = client.parts.as_ref().is_some_and(|parts| parts.creating.is_some());
    match client.wait(is_there_now(client)) {
        // Whoever may only write may not look. If there is an object, the store refuses the new one.
        Err(e) if promises && e.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        found => found,
    }
}

/// Whether the object exists.
///
/// # Errors
/// If the store fails, or denies access.
pub async fn is_there_now(client: &Client) -> io::Result<bool> {
    match client.store.head(&client.key).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error::of(error)),
    }
}

/// What identifies the version of an object.
pub fn version_of(meta: &ObjectMeta) -> String {
    format!("{} {} {}", meta.size, meta.last_modified.to_rfc3339(), meta.e_tag.as_deref().unwrap_or_default())
}

/// How to replace this version of an object and no other.
///
/// # Errors
/// If the store fails, or has another version.
pub async fn condition_of(client: &Client, version: &str) -> io::Result<UpdateVersion> {
    match client.store.head(&client.key).await {
        Ok(meta) if version_of(&meta) == version => Ok(UpdateVersion { e_tag: meta.e_tag, version: meta.version }),
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Err(error::changed()),
        Err(error) => Err(error::of(error)),
    }
}

/// Whether the object has this length, and begins so.
pub async fn is_object(client: &Client, len: u64, head: &[u8]) -> bool {
    let (store, key) = (&client.store, &client.key);
    if !store.head(key).await.is_ok_and(|meta| meta.size == len) {
        return false;
    }
    head.is_empty() || store.get_range(key, 0..head.len() as u64).await.is_ok_and(|bytes| bytes == head)
}
