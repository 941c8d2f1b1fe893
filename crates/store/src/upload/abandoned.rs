//! What killed runs have left of uploads.

use super::named;
use crate::client::Client;
use crate::error;
use crate::forgotten::unfinished;
use crate::location::Location;
use crate::options::Options;
use crate::record::Record;
use crate::runtime::wait;
use crate::there::is_object;
use phalanx_host::file::Url;
use std::collections::BTreeSet;
use std::io;

/// Deletes what interrupted runs have sent for an object, except for what runs of this machine are sending. Returns how
/// many uploads these were.
///
/// # Errors
/// If the store fails.
pub fn abort(url: &Url, options: &Options) -> io::Result<u64> {
    let client = Client::new(&Location::of(url)?, options)?;
    let Some(parts) = &client.parts else { return Ok(0) };
    let (own, used) = Record::all(&named(url, &client))?;
    let listed = match &parts.signed {
        Some(signed) => wait(unfinished(signed, &client.key))?,
        None => Vec::new(),
    };
    let recorded = own.iter().filter_map(Record::read).map(|found| found.upload);
    let uploads: BTreeSet<String> = recorded.chain(listed).filter(|upload| !used.contains(upload)).collect();
    let mut aborted = 0;
    for upload in uploads {
        let done = wait(async { parts.store.abort_multipart(&client.key, &upload).await.map_err(error::of) });
        match done {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => aborted += 1,
        }
    }
    own.iter().for_each(Record::end);
    Ok(aborted)
}

/// Deletes the record of an upload that was completed by a run that could not delete it.
pub fn end_if_done(client: &Client, record: &Record) {
    let Some(plan) = record.read().and_then(|found| found.plan) else { return record.end() };
    let is_done = wait(async { Ok(is_object(client, plan.len, &plan.header).await) });
    if is_done.unwrap_or(false) {
        record.end();
    }
}
