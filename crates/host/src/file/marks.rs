//! The record of an unfinished output, and how it is kept up to date: `docs/format.md`, section 11.

use crate::file::input::Stamp;
use crate::file::output::{Output, RECORD};
use crate::{Error, Result};
use phalanx_core::file::{Done, SharedFile};
use phalanx_core::{Error as CoreError, Progress};
use phalanx_system::files;
use std::fs::File;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::UNIX_EPOCH;
use subtle::ConstantTimeEq;

const TAG: usize = 32;
/// The length of an entry in bytes: its content and its tag.
const ENTRY: usize = 16 + 7 * 8 + TAG;
/// A record has two entries, which are written in turn, so that one is always whole: this many bytes from one to the
/// next.
const PLACE: usize = 512;
const _: () = assert!(RECORD == 2 * PLACE);
/// How many bytes of the output are written between two entries.
const EVERY: u64 = 256 << 20;

/// The kind of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Protected = 1,
    Plaintext = 2,
}

/// The common parts of the records of one output.
pub(crate) struct Recorder<'a> {
    pub kind: Kind,
    pub stamp: Stamp,
    /// Identifies the output.
    pub output: Identity,
    pub shared: &'a SharedFile,
}

/// Identifies a plaintext in its record: inode and time of birth. A protected output is identified by its header.
pub(crate) struct Identity {
    bytes: Vec<u8>,
    /// Whether no later file can have the same identity. Without a time of birth, a later file can get the inode.
    pub is_unique: bool,
}

impl Identity {
    pub fn new(kind: Kind, output: &File) -> Result<Self> {
        if kind == Kind::Protected {
            return Ok(Self { bytes: Vec::new(), is_unique: true });
        }
        let meta = output.metadata().map_err(Error::write)?;
        // Not every file system has it.
        let born = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let (_, inode) = files::id_of_open(output, &meta).map_err(Error::write)?;
        let fields = [inode, born.as_secs(), born.subsec_nanos().into()];
        Ok(Self { bytes: fields.into_iter().flat_map(u64::to_le_bytes).collect(), is_unique: !born.is_zero() })
    }
}

/// The content of a record.
pub(crate) enum Recorded {
    /// The first chunks of the output, up to this one, are on the disk.
    Synced(u64),
    /// It is for an input that has changed.
    Changed,
    /// It is for something else, or damaged.
    Different,
}

impl<'a> Recorder<'a> {
    /// The recorder for an output whose input has this stamp.
    pub fn new(shared: &'a SharedFile, kind: Kind, stamp: Stamp, output: &File) -> Result<Self> {
        Ok(Self { kind, stamp, output: Identity::new(kind, output)?, shared })
    }

    fn tag(&self, body: &[u8]) -> [u8; TAG] {
        self.shared.record_tag(body, &self.output.bytes)
    }

    fn entry(&self, synced: u64) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        let (body, tag) = entry.split_at_mut(ENTRY - TAG);
        let (magic, fields) = body.split_at_mut(16);
        magic[..8].copy_from_slice(b"PHXRESUM");
        magic[8] = self.kind as u8;
        let values = self.stamp.fields().into_iter().chain([synced]);
        for (place, field) in fields.as_chunks_mut::<8>().0.iter_mut().zip(values) {
            *place = field.to_le_bytes();
        }
        tag.copy_from_slice(&self.tag(body));
        entry
    }

    /// The record of an output without finished chunks.
    pub fn first(&self) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        record[..ENTRY].copy_from_slice(&self.entry(0));
        record
    }

    /// Reads a record.
    pub fn read(&self, record: &[u8; RECORD]) -> Recorded {
        let mut found = Recorded::Different;
        for entry in [&record[..ENTRY], &record[PLACE..PLACE + ENTRY]] {
            let (body, tag) = entry.split_at(ENTRY - TAG);
            let is_authentic: bool = self.tag(body).ct_eq(tag).into();
            let Some(synced) = body.last_chunk().map(|bytes| u64::from_le_bytes(*bytes)).filter(|_| is_authentic)
            else {
                continue;
            };
            found = match found {
                Recorded::Synced(other) if other >= synced => found,
                _ if entry == self.entry(synced) => Recorded::Synced(synced),
                Recorded::Different if entry[..16] == self.entry(synced)[..16] => Recorded::Changed,
                found => found,
            };
        }
        found
    }

    /// Records that the first chunks of an output are on the disk. Each call is for more of them than the one before
    /// it.
    pub fn note(&self, output: &Output, synced: u64, turn: u64) -> Result<()> {
        output.update_record(&self.entry(synced), if turn.is_multiple_of(2) { PLACE as u64 } else { 0 })
    }
}

/// Records in a separate thread how much of an output is on the disk while it is written.
pub(crate) struct Marks<'a> {
    recorder: Recorder<'a>,
    output: &'a Output,
    state: Mutex<Reached>,
    wake: Condvar,
    /// The chunks between two entries.
    every: u64,
}

/// How much of an output is done.
struct Reached {
    done: Done,
    noted: u64,
    is_over: bool,
}

/// Progress of the work on an output whose record is kept up to date.
pub(crate) struct Noting<'m> {
    pub marks: &'m Marks<'m>,
    pub progress: &'m dyn Progress,
}

impl Progress for Noting<'_> {
    fn advance(&self, bytes: u64) {
        self.progress.advance(bytes);
    }

    fn written(&self, chunks: Range<u64>) {
        self.marks.add(chunks);
    }
}

impl<'a> Marks<'a> {
    /// The marks of an output whose chunks before `synced` are on the disk, and whose chunks in `missing` are not done.
    pub fn new(recorder: Recorder<'a>, output: &'a Output, synced: u64, missing: &[Range<u64>], chunks: u64) -> Self {
        let mut done = Done::default();
        let starts = std::iter::once(0).chain(missing.iter().map(|run| run.end));
        let ends = missing.iter().map(|run| run.start).chain([chunks]);
        starts.zip(ends).for_each(|(start, end)| done.add(start..end));
        let every = (EVERY >> recorder.shared.header().chunk_log2()).max(1);
        let state = Mutex::new(Reached { done, noted: synced, is_over: false });
        Self { recorder, output, state, wake: Condvar::new(), every }
    }

    /// Adds chunks that have been written.
    pub fn add(&self, run: Range<u64>) {
        let mut state = self.lock();
        state.done.add(run);
        if state.done.first() >= state.noted.saturating_add(self.every) {
            self.wake.notify_one();
        }
    }

    /// Does the work, and keeps the record up to date meanwhile.
    pub fn keep<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        thread::scope(|scope| {
            // If no thread can be started, nothing is recorded, and a later run has more to check.
            let noting = thread::Builder::new().spawn_scoped(scope, || self.note()).ok();
            let over = Over(self);
            let done = work();
            drop(over);
            let noted = noting.map_or(Ok(()), |noting| noting.join().unwrap_or(Err(CoreError::Cancelled.into())));
            done.and_then(|done| noted.map(|()| done))
        })
    }

    fn note(&self) -> Result<()> {
        let mut turn = 0;
        loop {
            let is_early = |state: &mut Reached| !state.is_over && state.done.first() < state.noted + self.every;
            let mut state = self.wake.wait_while(self.lock(), is_early).unwrap_or_else(PoisonError::into_inner);
            if state.is_over {
                return Ok(());
            }
            let synced = state.done.first();
            state.noted = synced;
            drop(state);
            // The system reports lost writes only once, so this output is then discarded.
            self.output.sync_kept()?;
            self.recorder.note(self.output, synced, turn)?;
            turn += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the recording, also if the work panics.
struct Over<'m, 'a>(&'m Marks<'a>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.wake.notify_one();
    }
}
