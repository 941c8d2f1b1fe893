//! A stored file that the journal names, and how the journal is applied to it.

use crate::error::{Result, VolumeError};
use crate::header::{self, Opened};
use crate::journal::{Record, SEAL};
use crate::options::StoreOptions;
use phalanx_core::format::{Header, Layout};
use phalanx_core::volume::{Chunks, Config, Holes, Place};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A stored file that the journal names.
pub(super) struct Target {
    pub file: File,
    /// The header in its place; where that is torn, the last one of the journal.
    pub header: Header,
    pub holes: Holes,
    pub chunks: Chunks,
    pub inode: u64,
    /// Whether an entry of the volume leads to it. It may be one that was being made.
    pub has_name: bool,
}

/// A chunk of the journal: nonce and tag, and where its ciphertext lies.
#[derive(Clone, Copy)]
pub(super) struct Sealed {
    pub seal: [u8; SEAL],
    pub at: u64,
    pub len: u32,
}

impl Target {
    pub fn new(file: File, inode: u64, opened: Opened) -> Self {
        let chunks = Chunks::new(&opened.header, &opened.keys);
        Self { file, header: opened.header, holes: opened.holes, chunks, inode, has_name: false }
    }

    /// The bytes of a chunk as they are stored, if they are authentic in this place.
    pub fn read(
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

    /// Applies the records of the journal to it.
    pub fn apply<'r>(
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
        let (mut new_header, mut layout, mut count) = (None, None, 0);
        for record in records {
            count += 1;
            match record {
                Record::Chunk { index, seal, at, len } => {
                    chunks.insert(*index, Sealed { seal: *seal, at: *at, len: *len });
                }
                Record::Header(bytes) => new_header = Some(bytes),
                Record::Length(len) => {
                    let Ok(its) = self.header.layout_for_file(*len) else {
                        return damaged("have an impossible length");
                    };
                    chunks.split_off(&its.chunks());
                    layout = Some(its);
                }
                Record::Written(range) => {
                    let behind = chunks.split_off(&range.end.max(range.start));
                    chunks.split_off(&range.start);
                    chunks.extend(behind);
                }
                Record::Known(_) | Record::Gone | Record::Linked => {}
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
        let opened = new_header.map(|bytes| header::open(bytes, config)).transpose();
        let Ok(opened) = opened else { return damaged("have a header that is not authentic") };
        let holes = opened.as_ref().map_or(&self.holes, |opened| &opened.holes);
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
        if let Some(header) = new_header {
            options.disk.write(&self.file, &header[..], 0).map_err(failed)?;
        }
        options.disk.set_len(&self.file, layout.file_len()).map_err(failed)?;
        options.disk.sync_all(&self.file).map_err(|e| VolumeError::io("cannot sync a stored file", e))
    }
}
