//! The open files of a view, and their readers. The readers share a bound on memory: the one that was unused for
//! longest is dropped, and made again when its file is read again. It must then find the content that was there before.

use super::{TellOpened, lock};
use crate::fuse::roam;
use phalanx_core::format::Header;
use phalanx_core::tree::LastChunk;
use phalanx_core::{Error, KeySource, Opener, ReadAt, Reader, ReaderOptions, Result, Roster};
use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// The largest cache of one file, in bytes; one chunk if that is longer.
const CACHE: usize = 16 << 20;
/// What a reading thread uses in addition, in bytes; one chunk if that is longer.
const WORK: usize = 1 << 20;
/// What a reader takes in addition to its chunks: keys, tables and a header.
const OVERHEAD: usize = 64 << 10;

/// Where the bytes of a stored file are.
pub type Stored = Arc<dyn ReadAt + Send + Sync>;

/// A file that programs have opened. It is authentic up to its length.
pub struct OpenFile<I> {
    number: u64,
    /// Identifies the file, as it was when it was opened.
    id: I,
    file: Stored,
    path: PathBuf,
    /// Its last chunk, and the length of its plaintext, as the first reader authenticated them.
    end: OnceLock<(LastChunk, u64)>,
    /// The length of a stored chunk, and of all of them, in bytes.
    record: usize,
    stored: usize,
    /// Held while its reader is made.
    opening: Mutex<()>,
}

impl<I> OpenFile<I> {
    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of its plaintext, which is authentic.
    pub fn len(&self) -> u64 {
        self.end().1
    }

    /// Its last chunk, and the length of its plaintext, both authentic. All that is read has the key of this chunk.
    pub fn end(&self) -> (LastChunk, u64) {
        *self.end.get().expect("an open file had a reader")
    }

    /// Checks that a new reader reads what the first one did: somebody may have written another file over it.
    fn check_same(&self, reader: &Reader<Stored>) -> Result<()> {
        let found = (reader.last_chunk(), reader.len());
        if *self.end.get_or_init(|| found) == found { Ok(()) } else { Err(Error::Changed) }
    }

    /// How much its reader may keep, and how much memory it takes in all.
    fn memory(&self, share: usize) -> (usize, usize) {
        let cache = share.min(CACHE).max(self.record).min(self.stored);
        (cache, cache + self.record.max(WORK).min(self.stored) + OVERHEAD)
    }
}

/// A reader in use or kept.
struct Ready {
    reader: Reader<Stored>,
    memory: usize,
    active: usize,
    used: u64,
}

struct OpenFiles<I> {
    /// By what identifies them: the files, and how many handles have each.
    open: HashMap<I, (Arc<OpenFile<I>>, usize)>,
    /// The readers by the file's number.
    ready: HashMap<u64, Ready>,
    /// The memory of all readers, also of those that are being made.
    memory: usize,
    now: u64,
}

impl<I> Default for OpenFiles<I> {
    fn default() -> Self {
        Self { open: HashMap::new(), ready: HashMap::new(), memory: 0, now: 0 }
    }
}

/// All open files of a view.
pub struct Files<K, I> {
    opener: Opener<K>,
    roster: Arc<Roster>,
    limit: usize,
    read_ahead: Option<usize>,
    opened: TellOpened,
    state: Mutex<OpenFiles<I>>,
    /// Notified when a reader is no longer in use.
    idle: Condvar,
    next: AtomicU64,
}

impl<K: KeySource, I: Clone + Eq + Hash> Files<K, I> {
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

    /// Opens a file, or shares it if it is open already and unchanged. An error comes with the path.
    pub fn open(&self, file: Stored, path: PathBuf, id: I) -> Result<Arc<OpenFile<I>>, (PathBuf, Error)> {
        // A reader starts threads.
        roam();
        if let Some((open, handles)) = lock(&self.state).open.get_mut(&id) {
            *handles += 1;
            return Ok(open.clone());
        }
        let shape = || -> Result<_> {
            let header = read_header(&*file)?;
            let len = file.size().map_err(Error::Read)?;
            let stored = usize::try_from(len).unwrap_or(usize::MAX);
            Ok((1 << header.chunk_log2(), stored))
        };
        let (record, stored) = shape().map_err(|e| (path.clone(), e))?;
        let open = Arc::new(OpenFile {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            id: id.clone(),
            file,
            path,
            end: OnceLock::new(),
            record,
            stored,
            opening: Mutex::default(),
        });
        let opened = self.with(&open, |reader| {
            (self.opened)(&open.path, reader.opened_by());
            Ok(())
        });
        opened.map_err(|e| (open.path.clone(), e))?;
        let mut state = lock(&self.state);
        let (shared, handles) = state.open.entry(id).or_insert((open.clone(), 0));
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

    /// Closes one handle of a file.
    pub fn close(&self, file: Arc<OpenFile<I>>) {
        let mut state = lock(&self.state);
        if let Some((_, handles)) = state.open.get_mut(&file.id) {
            *handles -= 1;
            if *handles == 0 {
                state.open.remove(&file.id);
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
    pub fn read_at(&self, file: &Arc<OpenFile<I>>, buf: &mut [u8], offset: u64) -> Result<usize> {
        roam();
        self.with(file, |reader| reader.read_at(buf, offset))
    }

    fn remove(&self, state: &mut OpenFiles<I>, number: u64) -> Option<Ready> {
        let gone = state.ready.remove(&number)?;
        state.memory -= gone.memory;
        self.idle.notify_all();
        Some(gone)
    }

    /// Runs a function with a file's reader, which is not dropped meanwhile.
    fn with<T>(&self, file: &Arc<OpenFile<I>>, act: impl FnOnce(&Reader<Stored>) -> Result<T>) -> Result<T> {
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

    fn use_ready(&self, number: u64) -> Option<Reader<Stored>> {
        let mut state = lock(&self.state);
        state.now += 1;
        let now = state.now;
        let ready = state.ready.get_mut(&number)?;
        (ready.active, ready.used) = (ready.active + 1, now);
        Some(ready.reader.clone())
    }

    fn make(&self, file: &OpenFile<I>) -> Result<Reader<Stored>> {
        // If few files are open, each gets more.
        let share = self.limit / (2 * lock(&self.state).open.len().max(3));
        let (cache, memory) = file.memory(share);
        self.reserve(memory);
        let mut options = ReaderOptions::new().cache(cache).roster(self.roster.clone());
        if let Some(bytes) = self.read_ahead {
            options = options.read_ahead(bytes);
        }
        let made = Reader::open_with(file.file.clone(), &self.opener, &options);
        let made = made.and_then(|reader| file.check_same(&reader).map(|()| reader));
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

    /// Makes room for a reader: drops unused ones. If all are in use, waits for one of them.
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
struct InUse<'a, K, I> {
    files: &'a Files<K, I>,
    number: u64,
}

impl<K, I> Drop for InUse<'_, K, I> {
    fn drop(&mut self) {
        if let Some(ready) = lock(&self.files.state).ready.get_mut(&self.number) {
            ready.active -= 1;
        }
        self.files.idle.notify_all();
    }
}

/// The header of a stored file.
///
/// # Errors
/// Those of [`Header::read`].
pub fn read_header(file: &dyn ReadAt) -> Result<Header> {
    struct FromStart<'a>(&'a dyn ReadAt, u64);
    impl Read for FromStart<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let len = self.0.read_at(buf, self.1)?;
            self.1 += len as u64;
            Ok(len)
        }
    }
    Header::read(&mut BufReader::with_capacity(4096, FromStart(file, 0)))
}

#[cfg(test)]
mod tests {
    use super::super::nodes::Stamp;
    use super::*;
    use phalanx_core::{ChunkSize, KdfLimit, NewFile, Recipient, SecretKey, Sink, Source, Suite};

    use std::fs::File;

    fn stamp(file: &File) -> Stamp {
        Stamp::of(&rustix::fs::fstat(file).unwrap())
    }

    /// Files of 200,000 bytes in chunks of 4 KiB; byte i of file n is (i + n) mod 251.
    fn planted(folder: &Path, key: &SecretKey, count: u64) {
        for n in 0..count {
            let plain: Vec<u8> = (0..200_000).map(|i| ((i + n) % 251) as u8).collect();
            let chunks = ChunkSize::new(4096).unwrap();
            let new = NewFile::with_chunk_size(Suite::default(), chunks, &[Recipient::key(key)]).unwrap();
            let mut stored = Vec::new();
            new.protect(&Roster::cpu(), Source::stream(&plain[..]), Sink::Stream(Box::new(&mut stored)), &()).unwrap();
            std::fs::write(folder.join(n.to_string()), stored).unwrap();
        }
    }

    #[test]
    fn readers_share_a_bound_and_come_back() {
        const COUNT: u64 = 12;
        let (folder, key) = (tempfile::tempdir().unwrap(), SecretKey::random().unwrap());
        planted(folder.path(), &key, COUNT);
        // Enough for about three at once.
        let limit = 1 << 20;
        let opener = Opener::new(key, KdfLimit::default());
        let files = Files::new(opener, Arc::new(Roster::cpu()), limit, None, Box::new(|_, _| ()));
        let open = |n: u64| {
            let path = folder.path().join(n.to_string());
            let file = File::open(&path).unwrap();
            let key = (n, stamp(&file));
            files.open(Arc::new(file), path, key).unwrap()
        };
        let all: Vec<_> = (0..COUNT).map(open).collect();
        assert!(Arc::ptr_eq(&all[3], &open(3)), "it is shared");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (all, files) = (&all, &files);
                scope.spawn(move || {
                    for k in 0..25 {
                        let n = (thread * 5 + k * 7) % COUNT;
                        let file = &all[n as usize];
                        assert_eq!(file.len(), 200_000);
                        let (mut buf, offset) = ([0; 5000], k * 3301 % 200_000);
                        let read = files.read_at(file, &mut buf, offset).unwrap();
                        assert_eq!(read as u64, (200_000 - offset).min(5000));
                        assert!((0..).zip(&buf[..read]).all(|(i, byte)| u64::from(*byte) == (offset + i + n) % 251));
                        let state = lock(&files.state);
                        assert!(state.memory <= limit && state.ready.len() < COUNT as usize, "{}", state.memory);
                    }
                });
            }
        });
        files.close(all[3].clone());
        assert!(lock(&files.state).open.contains_key(&all[3].id), "somebody else has it");
        all.into_iter().for_each(|file| files.close(file));
        let state = lock(&files.state);
        assert!(state.open.is_empty() && state.ready.is_empty() && state.memory == 0);
    }

    #[test]
    fn a_reader_that_comes_back_finds_what_was_there_before() {
        const COUNT: u64 = 12;
        let (folder, key) = (tempfile::tempdir().unwrap(), SecretKey::random().unwrap());
        planted(folder.path(), &key, COUNT);
        let path = |n: u64| folder.path().join(n.to_string());
        let other = std::fs::read(path(1)).unwrap();
        let opener = Opener::new(key, KdfLimit::default());
        // Enough for about three at once.
        let files = Files::new(opener, Arc::new(Roster::cpu()), 1 << 20, None, Box::new(|_, _| ()));
        let open = |n: u64| {
            let file = File::open(path(n)).unwrap();
            let key = (n, stamp(&file));
            files.open(Arc::new(file), path(n), key).unwrap()
        };
        let all: Vec<_> = (0..COUNT).map(open).collect();
        let read = |n: usize, offset: u64| files.read_at(&all[n], &mut [0; 100], offset);
        let read_others = || (1..all.len()).for_each(|n| assert_eq!(read(n, 70_000).unwrap(), 100));
        read_others();
        assert_eq!(read(0, 0).unwrap(), 100, "nothing has changed");
        read_others();
        assert!(!lock(&files.state).ready.contains_key(&all[0].number), "its reader is gone");
        // Another valid file of the same length, in the same inode.
        std::fs::write(path(0), &other).unwrap();
        for offset in [0, 150_000] {
            assert!(matches!(read(0, offset), Err(Error::Changed)));
        }
        read_others();
        assert!(matches!(read(0, 0), Err(Error::Changed)), "and it stays so");
        assert_eq!(files.read_at(&open(0), &mut [0; 100], 0).unwrap(), 100, "opened again, it is the new file");
    }
}
