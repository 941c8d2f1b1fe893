//! Taking a volume as it is: its table of versions is made anew.

use super::batch;
use super::batch::{Found, Id, Version};
use super::{Failed, Generation, epoch_of, open_file, replace};
use crate::error::{Result, VolumeError};
use crate::header;
use crate::journal::{self, Epoch};
use crate::names::is_entry;
use crate::options::StoreOptions;
use crate::recover::{self, walk};
use phalanx_core::volume::Config;
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fstat};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

/// What [`accept`] has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// How many files the table has now.
    pub files: u64,
    /// How many of them it had in another state or not at all.
    pub new: u64,
    /// How many it had that are not there.
    pub missing: u64,
    /// The state of the volume from now on.
    pub generation: Generation,
}

/// Takes the files of a volume as they are: they are the last state from now on. What a killed run has left in the journal
/// is applied first. The config is not changed. Whenever this is killed, the old table and the journal are still there, or
/// the new table is.
///
/// `at_least` is a generation that the new one is to exceed.
///
/// # Errors
/// [`VolumeError::Refused`] with `EOPNOTSUPP` for a volume without a table; or if something cannot be read or written.
pub fn accept(root: &OwnedFd, config: &Config, options: &StoreOptions, at_least: u64) -> Result<Accepted> {
    if !config.features().rollback_protection {
        return Err(rustix::io::Errno::OPNOTSUPP.into());
    }
    // Something else in the place of the table is replaced.
    let (old, is_altered) = match open_file(root, OFlags::RDONLY) {
        Ok(Some(file)) => batch::read(&file, config.keys())?,
        Ok(None) | Err(VolumeError::Versions(_)) => (Found::default(), true),
        Err(e) => return Err(e),
    };
    // Without a whole table nothing says which epoch counts, and the journal may have the only whole copy of a change.
    let which = if is_altered || old.end == 0 { Epoch::Unchecked } else { Epoch::Only(epoch_of(&old)) };
    let journal = crate::store::open_journal_file(root, OFlags::RDWR)?;
    if let Some(journal) = &journal {
        recover::apply_to(root, journal, config, options, which, None)?;
    }
    let entries = files(root, config, &old)?;
    let is_new = |(id, version): &(&Id, &Version)| !old.entries.get(*id).is_some_and(|old| old.is_of(**version));
    let new = entries.iter().filter(is_new).count() as u64;
    let missing = old.entries.keys().filter(|id| !entries.contains_key(*id)).count() as u64;
    let generation = super::next(old.generation.max(at_least))?;
    let (bytes, found) = batch::whole(config.keys(), &entries, generation)?;
    match replace(root, &*options.disk, &bytes) {
        Ok(_) => {}
        Err(Failed::Softly(e) | Failed::Hard(e)) => return Err(e),
    }
    if let Some(journal) = &journal {
        // It does not count any more.
        journal::trim(&*options.disk, journal)?;
    }
    let generation = Generation { volume: config.keys().volume_id(), number: found.generation, mac: found.mac };
    Ok(Accepted { files: entries.len() as u64, new, missing, generation })
}

/// The ids and the versions of all files that are there. Of two files with one id, that of the old table counts.
fn files(root: &OwnedFd, config: &Config, old: &Found) -> Result<HashMap<Id, Version>> {
    let mut entries = HashMap::new();
    let skipped = walk::walk(root, &mut |dir, name, _| {
        if is_entry(name.to_bytes())
            && let Some(file) = recover::open_to_read(dir, name)?
        {
            let links = fstat(&file).map_err(|e| VolumeError::io("cannot look at a stored file", e))?.st_nlink;
            let is_linked = links > 1;
            match header::read(&file, config) {
                Ok(opened) => {
                    let (id, version) = (opened.keys.volume_file_id(), Version::of(opened.header.bytes()));
                    let known = old.entries.get(&id).copied();
                    // How many names it has had stays known. A file with several names now may have got them meanwhile.
                    let version = if is_linked { version.linked() } else { version }.after(known);
                    match entries.entry(id) {
                        Entry::Vacant(entry) => _ = entry.insert(version),
                        Entry::Occupied(mut entry) if known.is_some_and(|known| known.is_of(version)) => {
                            entry.insert(version);
                        }
                        Entry::Occupied(_) => {}
                    }
                }
                // It is not whole, and stays refused.
                Err(VolumeError::Core(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    match skipped {
        Some(errno) => Err(VolumeError::io("cannot look at all files", errno)),
        None => Ok(entries),
    }
}
