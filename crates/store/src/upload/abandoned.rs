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
/// user on this machine are sending. Returns how many uploads these were.
///
/// # Errors
/// If the store fails.
pub fn abort(url: &Url, is_folder: bool, options: &Options) -> io::Result<u64> {
    let location = if is_folder { Location::of_folder(url)? } else { Location::of(url)? };
    let client = Client::new(&location, options)?;
    let Some(parts) = &client.parts else { return Ok(0) };
    let (named, key) = (named(url, &client), client.key.to_string());
    // An empty prefix is that of a whole bucket.
    let prefix = if is_folder && !key.is_empty() { format!("{key}/") } else { key.clone() };
    let mut uploads = match &parts.signed {
        Some(signed) => wait(unfinished(signed, &prefix))?,
        None => Vec::new(),
    };
    // Other objects may begin with the name of one.
    uploads.retain(|(name, _)| is_folder || *name == key);
    // After the list: each upload in it that a run is sending is in a record by now, or its record says that it begins.
    let (own, used) = if is_folder { Record::below(&named)? } else { Record::all(&named)? };
    let beginning = used.beginning.iter().map(|url| name_of(url)).collect::<io::Result<BTreeSet<_>>>()?;
    uploads.retain(|(name, upload)| !used.uploads.contains(upload) && !beginning.contains(name));
    for record in &own {
        if let Some(found) = record.read() {
            uploads.push((name_of(record.url())?, found.upload));
        }
    }
    let uploads: BTreeSet<_> = uploads.into_iter().collect();
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

/// The name of the object of a record.
fn name_of(url: &str) -> io::Result<String> {
    Ok(Location::of(&location::url(url)?)?.key().to_string())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::lies::{answer, options, server};
    use crate::upload::Upload;
    use phalanx_core::WriteAt;
    use phalanx_host::file::NewObject;
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex, OnceLock};

    /// A store that lists an upload of `dir/f`: how it is reached, and what is deleted there. At each request it does what
    /// `does` does, which gets its method.
    fn store(
        state: &std::path::Path,
        does: impl Fn(&str, &Options) + Send + Sync + 'static,
    ) -> (Options, Arc<Mutex<Vec<String>>>) {
        let (deleted, known) = (Arc::new(Mutex::new(Vec::new())), Arc::new(OnceLock::new()));
        let serve = {
            let (deleted, known) = (deleted.clone(), known.clone());
            move |head: &str, stream: &mut TcpStream| {
                let (method, target) = head.split_once(' ').unwrap();
                does(method, known.wait());
                match method {
                    "DELETE" => {
                        deleted.lock().unwrap().push(target.split(' ').next().unwrap().to_owned());
                        answer(stream, "204 No Content", "")
                    }
                    "GET" => answer(stream, "200 OK", "<L><Upload><Key>dir/f</Key><UploadId>u</UploadId></Upload></L>"),
                    "POST" => answer(stream, "200 OK", "<I><UploadId>u</UploadId></I>"),
                    _ => answer(stream, "404 None", ""),
                }
            }
        };
        let mut options = options(&server(serve), &[]);
        let variables = options.environment.unwrap().all().clone();
        options.environment = Some(Environment::new(variables, Some(state.to_owned())));
        known.set(options.clone()).unwrap();
        (options, deleted)
    }

    fn object() -> Url {
        location::url("s3://bucket/dir/f").unwrap()
    }

    /// Deletes what is unfinished, of the object itself and of its folder.
    fn abort_all(options: &Options) -> [u64; 2] {
        let folder = location::url("s3://bucket/dir").unwrap();
        [abort(&object(), false, options).unwrap(), abort(&folder, true, options).unwrap()]
    }

    #[test]
    fn an_upload_that_begins_while_the_store_lists_it_is_spared() {
        let (state, record, lists) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(None)), AtomicUsize::new(0));
        let (options, deleted) = {
            let record = record.clone();
            store(state.path(), move |method, options| {
                if method == "GET" && lists.fetch_add(1, Relaxed) == 0 {
                    let client = Client::new(&Location::of(&object()).unwrap(), options).unwrap();
                    let begun = Record::new(&named(&object(), &client)).unwrap();
                    begun.begin("u", None).unwrap();
                    *record.lock().unwrap() = Some(begun);
                }
            })
        };
        assert_eq!(abort_all(&options), [0, 0]);
        assert_eq!(*deleted.lock().unwrap(), [""; 0]);
        // As if its run were killed.
        record.lock().unwrap().take();
        assert_eq!(abort(&object(), false, &options).unwrap(), 1);
    }

    #[test]
    fn an_upload_whose_name_only_the_store_knows_is_spared() {
        let (state, aborted) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(None)));
        let (options, deleted) = {
            let aborted = aborted.clone();
            store(state.path(), move |method, options| {
                if method == "POST" {
                    *aborted.lock().unwrap() = Some(abort_all(options));
                }
            })
        };
        let new = NewObject { len: Some(9 << 20), ..NewObject::default() };
        let upload = Upload::at(&object(), new, &options).unwrap();
        upload.write_all_at(&vec![7; 9 << 20], 0).unwrap();
        // The store has no place for parts.
        assert!(upload.wait_until_under_way(upload.shared.lock(), 0).is_err());
        assert_eq!(*aborted.lock().unwrap(), Some([0, 0]));
        assert_eq!(*deleted.lock().unwrap(), [""; 0]);
        drop(upload);
        assert!(!deleted.lock().unwrap().is_empty());
        assert_eq!(std::fs::read_dir(state.path().join("uploads")).unwrap().count(), 0);
    }
}
