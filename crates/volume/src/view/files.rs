//! The open files of a view, and the readers behind them. Together the readers have a bound on their memory: the one that was
//! not used for the longest time goes, and comes back when its file is read again.

use super::nodes::Stamp;
use super::{TellOpened, lock};
use phalanx_core::format::Header;
use phalanx_core::{Error, KeySource, Opener, ReadAt, Reader, ReaderOptions, Result, Roster};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The largest cache of one file, in bytes; one chunk if that is longer.
const CACHE: usize = 16 << 20;
/// What a thread that reads uses besides, in bytes; one chunk if that is longer.
const WORK: usize = 1 << 20;
/// What a reader takes besides its chunks: keys, tables and a header.
const OVERHEAD: usize = 64 << 10;

/// A file that programs have opened. It is authentic up to its length.
pub struct OpenFile {
    number: u64,
    /// Which file it is, and as it was at the opening.
    key: (u64, Stamp),
    file: Arc<File>,
    path: PathBuf,
    len: AtomicU64,
    /// The length of a stored chunk, and of all of them, in bytes.
    record: usize,
    stored: usize,
    /// Held by whoever makes its reader.
    opening: Mutex<()>,
}

impl OpenFile {
    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of its plaintext, which is authentic.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// How much its reader may keep, and how much memory it takes in all.
    fn memory(&self, share: usize) -> (usize, usize) {
        let cache = share.min(CACHE).max(self.record).min(self.stored);
        (cache, cache + self.record.max(WORK).min(self.stored) + OVERHEAD)
    }
}

/// A reader in use or kept.
struct Ready {
    reader: Reader<Arc<File>>,
    memory: usize,
    active: usize,
    used: u64,
}

#[derive(Default)]
struct State {
    /// By which file it is: the file, and how many handles have it.
    open: HashMap<(u64, Stamp), (Arc<OpenFile>, usize)>,
    /// By the file's number.
    ready: HashMap<u64, Ready>,
    /// What all of them take, and what those will take that are being made.
    memory: usize,
    now: u64,
}

/// All open files of a view.
pub struct Files<K> {
    opener: Opener<K>,
    roster: Arc<Roster>,
    limit: usize,
    read_ahead: Option<usize>,
    opened: TellOpened,
    state: Mutex<State>,
    /// Some reader is not in use any more.
    idle: Condvar,
    next: AtomicU64,
}

impl<K: KeySource> Files<K> {
    pub fn new(
        opener: Opener<K>,
        roster: Arc<Roster>,
        limit: usize,
        read_ahead: Option<usize>,
        opened: TellOpened,
    ) -> Self {
        let (state, idle, next) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        Self { opener, roster, limit, read_ahead, opened, state, idle, next }
    }

    pub fn opener(&self) -> &Opener<K> {
        &self.opener
    }

    /// Opens a file, or shares it with those who have it open as it is now. An error comes with the path.
    pub fn open(&self, file: File, path: PathBuf, key: (u64, Stamp)) -> Result<Arc<OpenFile>, (PathBuf, Error)> {
        if let Some((open, handles)) = lock(&self.state).open.get_mut(&key) {
            *handles += 1;
            return Ok(open.clone());
        }
        let shape = || -> Result<_> {
            let header = Header::read(&mut BufReader::with_capacity(4096, &file))?;
            let len = file.size().map_err(Error::Read)?;
            let stored = usize::try_from(len).unwrap_or(usize::MAX);
            Ok((1 << header.chunk_log2(), stored))
        };
        let (record, stored) = shape().map_err(|e| (path.clone(), e))?;
        let open = Arc::new(OpenFile {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            key,
            file: Arc::new(file),
            path,
            len: AtomicU64::new(0),
            record,
            stored,
            opening: Mutex::default(),
        });
        let len = self.with(&open, |reader| {
            (self.opened)(&open.path, reader.opened_by());
            Ok(reader.len())
        });
        open.len.store(len.map_err(|e| (open.path.clone(), e))?, Ordering::Relaxed);
        let mut state = lock(&self.state);
        let (shared, handles) = state.open.entry(key).or_insert((open.clone(), 0));
        *handles += 1;
        let shared = shared.clone();
        if !Arc::ptr_eq(&shared, &open) {
            // Another thread was first.
            let gone = self.remove(&mut state, open.number);
            drop(state);
            drop(gone);
        }
        Ok(shared)
    }

    /// One handle less.
    pub fn close(&self, file: Arc<OpenFile>) {
        let mut state = lock(&self.state);
        if let Some((_, handles)) = state.open.get_mut(&file.key) {
            *handles -= 1;
            if *handles == 0 {
                state.open.remove(&file.key);
                let gone = self.remove(&mut state, file.number);
                drop(state);
                // It is wiped here.
                drop(gone);
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let state = std::mem::take(&mut *lock(&self.state));
        drop(state);
    }

    /// Reads plaintext, as [`Reader::read_at`] does.
    pub fn read_at(&self, file: &Arc<OpenFile>, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.with(file, |reader| reader.read_at(buf, offset))
    }

    fn remove(&self, state: &mut State, number: u64) -> Option<Ready> {
        let gone = state.ready.remove(&number)?;
        state.memory -= gone.memory;
        self.idle.notify_all();
        Some(gone)
    }

    /// Does something with a file's reader, which cannot go meanwhile.
    fn with<T>(&self, file: &Arc<OpenFile>, act: impl FnOnce(&Reader<Arc<File>>) -> Result<T>) -> Result<T> {
        let reader = match self.use_ready(file.number) {
            Some(reader) => reader,
            None => {
                let _alone = lock(&file.opening);
                match self.use_ready(file.number) {
                    Some(reader) => reader,
                    None => self.make(file)?,
                }
            }
        };
        let _in_use = InUse { files: self, number: file.number };
        act(&reader)
    }

    fn use_ready(&self, number: u64) -> Option<Reader<Arc<File>>> {
        let mut state = lock(&self.state);
        state.now += 1;
        let now = state.now;
        let ready = state.ready.get_mut(&number)?;
        (ready.active, ready.used) = (ready.active + 1, now);
        Some(ready.reader.clone())
    }

    fn make(&self, file: &OpenFile) -> Result<Reader<Arc<File>>> {
        // Where few files are open, each gets more.
        let share = self.limit / (2 * lock(&self.state).open.len().max(3));
        let (cache, memory) = file.memory(share);
        self.reserve(memory);
        let mut options = ReaderOptions::new().cache(cache).roster(self.roster.clone());
        if let Some(bytes) = self.read_ahead {
            options = options.read_ahead(bytes);
        }
        let made = Reader::open_with(file.file.clone(), &self.opener, &options);
        let mut state = lock(&self.state);
        match made {
            Ok(reader) => {
                let ready = Ready { reader: reader.clone(), memory, active: 1, used: state.now };
                state.ready.insert(file.number, ready);
                Ok(reader)
            }
            Err(e) => {
                state.memory -= memory;
                self.idle.notify_all();
                Err(e)
            }
        }
    }

    /// Makes room for a reader. Others go that nobody uses; where all are in use, it waits for one of them.
    fn reserve(&self, memory: usize) {
        let mut state = lock(&self.state);
        let mut gone = Vec::new();
        while state.memory > 0 && state.memory + memory > self.limit {
            let idle = state.ready.iter().filter(|(_, ready)| ready.active == 0);
            match idle.min_by_key(|(_, ready)| ready.used).map(|(number, _)| *number) {
                Some(number) => gone.extend(self.remove(&mut state, number)),
                None => state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
        state.memory += memory;
        drop(state);
        drop(gone);
    }
}

/// A reader in use.
struct InUse<'a, K: KeySource> {
    files: &'a Files<K>,
    number: u64,
}

impl<K: KeySource> Drop for InUse<'_, K> {
    fn drop(&mut self) {
        if let Some(ready) = lock(&self.files.state).ready.get_mut(&self.number) {
            ready.active -= 1;
        }
        self.files.idle.notify_all();
    }
}
