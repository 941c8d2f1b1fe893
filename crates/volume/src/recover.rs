//! Applying the journal that a killed run left (`docs/format-volumes.md`, section 10.7). Only authentic records are
//! used.

mod find;
mod target;
mod walk;

use crate::error::{Result, VolumeError};
use crate::header;
use crate::journal::{self, Record, Transaction};
use crate::options::StoreOptions;
use crate::recover::target::{Sealed, Target};
use phalanx_core::volume::Config;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;

/// Applies the journal, syncs the files, and trims it.
///
/// # Errors
/// If something cannot be read, written or synced. The journal then stays as it is.
pub(crate) fn apply(root: &OwnedFd, journal: &File, config: &Config, options: &StoreOptions) -> Result<()> {
    let mut transactions = journal::read(journal, config.keys())?;
    if transactions.is_empty() {
        return Ok(());
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
        let its = records.remove(id).unwrap_or_default();
        target.apply(its.into_iter(), journal, config, options)?;
    }
    journal::trim(&*options.disk, journal)
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
                    header::open(bytes, config).is_ok_and(|(_, keys, _)| keys.volume_file_id() == owner.id)
                }
                (Record::Length(len), _) => header::layout_of(config, *len).is_ok(),
                (Record::Chunk { .. }, None) | (Record::Written(_), _) => true,
            };
            if !is_whole {
                transactions.truncate(place);
                return Ok(());
            }
        }
    }
    Ok(())
}
