//! What killed runs have left of uploads.

use super::named;
use crate::client::{Client, Parts};
use crate::error::{self, wrong};
use crate::forgotten::unfinished;
use crate::location::{self, Location};
use crate::options::Options;
use crate::record::{Found, Named, Record};
use crate::runtime::wait;
use crate::there::is_object;
use object_store::path::Path;
use phalanx_host::file::Url;
use std::collections::BTreeSet;
use std::io;

/// Deletes what interrupted runs have sent for an object, or for all objects of a folder, except for what runs of this
/// machine are sending. Returns how many uploads these were.
///
/// # Errors
/// If the store fails.
pub fn abort(url: &Url, is_folder: bool, options: &Options) -> io::Result<u64> {
    let location = if is_folder { Location::of_folder(url)? } else { Location::of(url)? };
    let client = Client::new(&location, options)?;
    let Some(parts) = &client.parts else { return Ok(0) };
    let (named, key) = (named(url, &client), client.key.to_string());
    let (own, used) = if is_folder { Record::below(&named)? } else { Record::all(&named)? };
    // An empty prefix is that of a whole bucket.
    let prefix = if is_folder && !key.is_empty() { format!("{key}/") } else { key.clone() };
    let mut uploads = match &parts.signed {
        Some(signed) => wait(unfinished(signed, &prefix))?,
        None => Vec::new(),
    };
    // Other objects may begin with the name of one.
    uploads.retain(|(name, _)| is_folder || *name == key);
    for record in &own {
        if let Some(found) = record.read() {
            uploads.push((Location::of(&location::url(record.url())?)?.key().to_string(), found.upload));
        }
    }
    let uploads: BTreeSet<_> = uploads.into_iter().filter(|(_, upload)| !used.contains(upload)).collect();
    let (mut aborted, mut failed) = (0, None);
    for (name, upload) in uploads {
        match abort_one(parts, &name, &upload) {
            Ok(()) => aborted += 1,
            // Others may have begun it, under a name that no object of ours has. The rest is deleted all the same.
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    match failed {
        Some(e) => Err(e),
        None => {
            own.iter().for_each(Record::end);
            Ok(aborted)
        }
    }
}

/// Deletes what was sent by an upload, if it is still there.
fn abort_one(parts: &Parts, name: &str, upload: &str) -> io::Result<()> {
    let name = Path::parse(name).map_err(|_| wrong("the store lists an upload without the name of an object"))?;
    match wait(async { parts.store.abort_multipart(&name, &upload.to_owned()).await.map_err(error::of) }) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Deletes what killed runs of this machine have sent for an object, unless a later run may go on with it.
pub async fn abort_own(parts: &Parts, key: &Path, object: &Named) {
    for record in Record::all(object).map(|(own, _)| own).unwrap_or_default() {
        let Some(Found { upload, plan: None, .. }) = record.read() else { continue };
        // Another try is left to the next run, or to `--abort`.
        if let Ok(()) | Err(object_store::Error::NotFound { .. }) = parts.store.abort_multipart(key, &upload).await {
            record.end();
        }
    }
}

/// Deletes the record of an upload that was completed by a run that could not delete it.
pub fn end_if_done(client: &Client, record: &Record) {
    let Some(plan) = record.read().and_then(|found| found.plan) else { return record.end() };
    let is_done = wait(async { Ok(is_object(client, plan.len, &plan.header).await) });
    if is_done.unwrap_or(false) {
        record.end();
    }
}
