//! Applying the journal that a killed run left: `docs/format-volumes.md`, section 10.7. Nothing is used that is not authentic.

mod find;
mod walk;

use crate::error::{Result, VolumeError};
use crate::journal::{self, Record, SEAL, Transaction};
use crate::store::StoreOptions;
use phalanx_core::format::{FileKeys, Header, Layout};
use phalanx_core::volume::{Chunks, Config, HEADER_LEN, Holes, Place};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// A stored file that the journal names.
struct Target {
    file: File,
    /// The header in its place; where that is torn, the last one of the journal.
    header: Header,
    holes: Holes,
    chunks: Chunks,
    inode: u64,
}

/// A chunk of the journal: nonce and tag, and where its ciphertext lies.
#[derive(Clone, Copy)]
struct Sealed {
    seal: [u8; SEAL],
    at: u64,
    len: u32,
}

/// Reads and opens the header of a stored file.
///
/// # Errors
/// [`VolumeError::Core`] if it is not one of this volume.
pub(crate) fn header(file: &File, config: &Config) -> Result<(Header, FileKeys, Holes)> {
    let mut bytes = [0; HEADER_LEN];
    file.read_exact_at(&mut bytes, 0).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => phalanx_core::Error::Truncated("its header is not whole").into(),
        _ => VolumeError::io("cannot read a stored file", e),
    })?;
    open_header(&bytes, config)
}

fn open_header(bytes: &[u8; HEADER_LEN], config: &Config) -> Result<(Header, FileKeys, Holes)> {
    let header = Header::read(&mut &bytes[..])?;
    let (keys, holes) = config.open_file(&header)?;
    Ok((header, keys, holes))
}

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

/// Leaves out the first transaction of which a record cannot be used, since a chunk did not get to the disk whole or nobody
/// should have written it, and all that follow.
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
                    open_header(bytes, config).is_ok_and(|(_, keys, _)| keys.volume_file_id() == owner.id)
                }
                (Record::Length(len), _) => layout_of(config, *len).is_ok(),
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

/// The chunks of a stored file of a length.
pub(crate) fn layout_of(config: &Config, stored_len: u64) -> phalanx_core::Result<Layout> {
    let chunk_log2 = config.chunk_size().bytes().ilog2() as u8;
    Layout::for_file(HEADER_LEN, config.suite(), chunk_log2, stored_len)
}

impl Target {
    /// The bytes of a chunk as they are stored, if they are authentic in this place.
    fn read(
        &self,
        index: u64,
        last: bool,
        sealed: Sealed,
        journal: &File,
        options: &StoreOptions,
    ) -> Result<Option<Vec<u8>>> {
        let len = sealed.len as usize;
        if len > self.chunks.chunk_len() || self.chunks.overhead() != SEAL {
            return Ok(None);
        }
        let mut records = self.chunks.records(1, len)?;
        let bytes = records.bytes_mut();
        bytes[..SEAL].copy_from_slice(&sealed.seal);
        journal
            .read_exact_at(&mut bytes[SEAL..], sealed.at)
            .map_err(|e| VolumeError::io("cannot read the journal", e))?;
        let stored = bytes.to_vec();
        let verdicts = self.chunks.open(&options.small, &mut records, &[Place { index, last, len }])?;
        Ok(verdicts.all_passed().then_some(stored))
    }

    fn apply<'r>(
        &self,
        records: impl Iterator<Item = &'r Record>,
        journal: &File,
        config: &Config,
        options: &StoreOptions,
    ) -> Result<()> {
        let failed = |e| VolumeError::io("cannot write a stored file", e);
        let damaged = |what: &str| {
            let text = format!("the journal's changes of the stored file with inode {} {what}", self.inode);
            (options.on_damage)(&text);
            Ok(())
        };
        let mut chunks: BTreeMap<u64, Sealed> = BTreeMap::new();
        let (mut header, mut layout, mut count) = (None, None, 0);
        for record in records {
            count += 1;
            match record {
                Record::Chunk { index, seal, at, len } => {
                    chunks.insert(*index, Sealed { seal: *seal, at: *at, len: *len });
                }
                Record::Header(bytes) => header = Some(bytes),
                Record::Length(len) => {
                    let Ok(its) = self.header.layout_for_file(*len) else {
                        return damaged("have no lawful length");
                    };
                    chunks.split_off(&its.chunks());
                    layout = Some(its);
                }
                Record::Written(range) => {
                    let behind = chunks.split_off(&range.end.max(range.start));
                    chunks.split_off(&range.start);
                    chunks.extend(behind);
                }
            }
        }
        if count == 0 {
            return Ok(());
        }
        let layout: Layout = match layout {
            Some(layout) => layout,
            None => {
                let len = self.file.metadata().map_err(failed)?.len();
                let Ok(layout) = self.header.layout_for_file(len) else { return damaged("have no length") };
                layout
            }
        };
        let opened = header.map(|bytes| open_header(bytes, config)).transpose();
        let Ok(opened) = opened else { return damaged("have a header that is not authentic") };
        let holes = opened.as_ref().map_or(&self.holes, |(_, _, holes)| holes);
        for (index, sealed) in chunks {
            if holes.around(index).is_some() {
                continue;
            }
            let fits = index < layout.chunks() && sealed.len as usize == layout.data_len(index);
            let stored = match fits {
                true => self.read(index, layout.is_last(index), sealed, journal, options)?,
                false => None,
            };
            match stored {
                Some(stored) => {
                    options.disk.write(&self.file, &stored, layout.file_offset(index)).map_err(failed)?;
                }
                None => damaged(&format!("are damaged in chunk {index}"))?,
            }
        }
        if let Some(header) = header {
            options.disk.write(&self.file, &header[..], 0).map_err(failed)?;
        }
        options.disk.set_len(&self.file, layout.file_len()).map_err(failed)?;
        options.disk.sync_all(&self.file).map_err(|e| VolumeError::io("cannot sync a stored file", e))
    }
}
