//! Applying the journal that a killed run left (`docs/format-volumes.md`, section 10.7). Only authentic records are
//! used.

mod find;
mod target;
pub(crate) mod walk;

pub(crate) use find::open_to_read;

use crate::error::{Result, VolumeError};
use crate::header;
use crate::journal::{self, Epoch, Record, Transaction};
use crate::options::StoreOptions;
use crate::recover::target::{Sealed, Target};
use crate::versions::{Version, Versions};
use phalanx_core::volume::Config;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;

/// Applies the journal, syncs the files, and trims it.
///
/// # Errors
/// If something cannot be read, written or synced. The journal then stays as it is.
pub(crate) fn apply(root: &OwnedFd, journal: &File, config: &Config, options: &StoreOptions) -> Result<()> {
    if apply_to(root, journal, config, options, Epoch::Any, None)? {
        journal::trim(&*options.disk, journal)?;
    }
    Ok(())
}

/// Applies the journal and syncs the files, but does not trim it. The versions that the files have then are put into the
/// table. Returns whether there was anything to apply.
///
/// # Errors
/// If something cannot be read, written or synced.
pub(crate) fn apply_to(
    root: &OwnedFd,
    journal: &File,
    config: &Config,
    options: &StoreOptions,
    which: Epoch,
    versions: Option<&Versions>,
) -> Result<bool> {
    let mut transactions = journal::read(journal, config.keys(), which)?;
    if transactions.is_empty() {
        return Ok(false);
    }
    // A killed run may not have synced it, and files are overwritten by what it holds.
    options.disk.sync_data(journal).map_err(|e| VolumeError::io("cannot sync the journal", e))?;
    let targets = find::targets(root, &transactions, config)?;
    keep_whole(&mut transactions, &targets, journal, config, options)?;
    let mut records: HashMap<[u8; 16], Vec<&Record>> = HashMap::new();
    for (owner, record) in transactions.iter().flatten() {
        records.entry(owner.id).or_default().push(record);
    }
    for (id, target) in &targets {
        let its = records.get(id).map_or(&[][..], Vec::as_slice);
        target.apply(its.iter().copied(), journal, config, options)?;
    }
    if let Some(versions) = versions {
        note_versions(versions, &records, &targets);
    }
    Ok(true)
}

/// Puts the versions of the files into the table. A file that was removed and is still there stays in it: a power cut
/// has undone the removal.
fn note_versions(versions: &Versions, records: &HashMap<[u8; 16], Vec<&Record>>, targets: &HashMap<[u8; 16], Target>) {
    for (id, records) in records {
        let mut version = versions.get(*id);
        for record in records {
            match record {
                Record::Header(bytes) => version = Some(Version::of(&bytes[..]).after(version)),
                Record::Known(known) => version = Some(Version(*known).after(version)),
                Record::Linked => version = version.map(Version::linked),
                _ => {}
            }
        }
        let is_gone = records.iter().any(|record| matches!(record, Record::Gone));
        match (targets.get(id), version) {
            (Some(target), Some(version)) if target.has_name => versions.insert(*id, version),
            // What was being made under a temporary name is removed by and by.
            (Some(target), _) if !target.has_name => versions.remove(*id),
            (None, _) if is_gone => versions.remove(*id),
            // It was moved away from outside, and must not come back as it was before.
            (None, Some(version)) if versions.get(*id).is_some() => versions.set(*id, version),
            _ => {}
        }
    }
}

/// Leaves out the first transaction with an unusable record, and all that follow. A record is unusable if its chunk or
/// header is torn or not authentic, or its length is impossible.
fn keep_whole(
    transactions: &mut Vec<Transaction>,
    targets: &HashMap<[u8; 16], Target>,
    journal: &File,
    config: &Config,
    options: &StoreOptions,
) -> Result<()> {
    for place in 0..transactions.len() {
        for (owner, record) in &transactions[place] {
            let is_whole = match (record, targets.get(&owner.id)) {
                (Record::Chunk { index, seal, at, len }, Some(target)) => {
                    let sealed = Sealed { seal: *seal, at: *at, len: *len };
                    target.read(*index, false, sealed, journal, options)?.is_some()
                        || target.read(*index, true, sealed, journal, options)?.is_some()
                }
                (Record::Header(bytes), _) => {
                    header::open(bytes, config).is_ok_and(|opened| opened.keys.volume_file_id() == owner.id)
                }
                (Record::Length(len), _) => header::layout_of(config, *len).is_ok(),
                (Record::Chunk { .. }, None) => true,
                (Record::Written(_) | Record::Known(_) | Record::Gone | Record::Linked, _) => true,
            };
            if !is_whole {
                transactions.truncate(place);
                return Ok(());
            }
        }
    }
    Ok(())
}
