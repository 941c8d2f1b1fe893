//! What a store and its files share.

mod records;

use crate::backing::ahead::Ahead;
use crate::backing::cache::Cache;
use crate::backing::page::PagePool;
use crate::disk::{Disk, reports_lost_writes};
use crate::error::{Result, VolumeError};
use crate::header;
use crate::journal::{Journal, Owner};
use crate::options::StoreOptions;
use crate::versions::{Failed, Versions};
use phalanx_core::Roster;
use phalanx_core::volume::{Chunks, Config, Records};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, Weak};
use std::time::{Duration, Instant};

pub(crate) use records::is_room;

/// Device and inode.
pub(crate) type Key = (u64, u64);

/// A file that may have changes in memory.
pub(crate) trait Uncommitted {
    /// The memory that its changes take, in bytes.
    fn dirty_bytes(&self) -> usize;

    /// Commits its changes without reporting a failure to this caller: the next commit or sync of the file reports it.
    /// Returns whether the memory is free.
    fn commit_quietly(&self) -> bool;
}

/// What the store and its files share. `F` is the type of the files.
pub(crate) struct Shared<F> {
    pub config: Config,
    pub options: StoreOptions,
    /// `None` in a mount for reading only.
    pub journal: Option<Journal>,
    /// Which state of each file is the last, in a volume that has this.
    pub versions: Option<Versions>,
    /// The memory that the tags of chunks take, in bytes.
    pub tag_bytes: AtomicUsize,
    /// The number of epochs that have ended. Commits hold the lock for reading, and a checkpoint, which ends the epoch,
    /// for writing.
    pub epoch: RwLock<u64>,
    pub pages: PagePool,
    pub cache: Cache,
    pub ahead: Ahead,
    pub scratch: Mutex<VecDeque<Records>>,
    pub threads: usize,
    /// Plaintext in memory that is not committed, in bytes.
    pub dirty_bytes: AtomicUsize,
    pub device: u64,
    pub root: File,
    syncs_at_once: bool,
    named_at_once: usize,
    pub table: Mutex<HashMap<Key, Weak<F>>>,
    pub opening: [Mutex<()>; 32],
    dirty: Mutex<HashMap<Key, Dirty<F>>>,
    wake: Condvar,
    /// Whether the thread in the background has nothing to do. Changed under the lock of `dirty`.
    is_idle: AtomicBool,
    named: Mutex<Named>,
    numbers: AtomicU64,
    /// By file id, why changes were dropped that no sync has reported yet.
    untold: Mutex<HashMap<[u8; 16], Errno>>,
    /// The damaged files and chunks that have been reported.
    told: Mutex<HashSet<(Key, Option<u64>)>>,
    /// Set once the disk has failed.
    pub broken: Arc<AtomicBool>,
    ending: AtomicBool,
    pub closed: AtomicBool,
}

struct Dirty<F> {
    file: Arc<F>,
    since: Instant,
}

/// The files that are synced at the end of the epoch: those that the journal names, and new ones.
#[derive(Default)]
struct Named {
    /// Each with a flag: whether nothing of it has ever been synced.
    files: HashMap<Owner, (Option<Arc<File>>, bool)>,
    /// The epoch that they are of. It changes together with them, so that nobody takes a file of the last epoch, which was
    /// synced at its end, for one of the next.
    epoch: u64,
}

impl Named {
    /// The epoch, if the file was created in it and nothing of it has ever been synced.
    fn fresh(&self, owner: Owner) -> Option<u64> {
        self.files.get(&owner).is_some_and(|(_, is_fresh)| *is_fresh).then_some(self.epoch)
    }

    /// All have been synced, and a new epoch begins.
    fn begin(&mut self, epoch: u64) {
        *self = Self { files: HashMap::new(), epoch };
    }
}

/// With more files than this, one call syncs all of them, if its result can be trusted. Their descriptors are not kept.
const SYNCED_EACH: usize = 64;
/// The epoch ends when more files than this are named, if each is synced separately.
const NAMED: usize = 256;
/// The epoch ends when more files than this are named, if one call syncs all of them. After a kill the next mount opens
/// all of them, so the limit is also at most half the number of files that a process may open.
const NAMED_AT_ONCE: usize = 100_000;

/// How long an epoch lasts in a volume with a table of versions. After a kill, what happened in the last one can be undone
/// from outside, as a whole.
const LONGEST: Duration = Duration::from_secs(30);

impl<F: Uncommitted> Shared<F> {
    pub fn new(
        root: &OwnedFd,
        config: Config,
        options: StoreOptions,
        journal: Option<Journal>,
        versions: Option<Versions>,
    ) -> Result<Self> {
        let failed = |e| VolumeError::io("cannot look at the volume's folder", e);
        let root = File::from(root.try_clone().map_err(|e| VolumeError::io("cannot copy a descriptor", e))?);
        let device = fstat(&root).map_err(failed)?.st_dev;
        Ok(Self {
            pages: PagePool::new(config.chunk_size().bytes()),
            syncs_at_once: reports_lost_writes(&root),
            named_at_once: getrlimit(Resource::Nofile).current.map_or(NAMED_AT_ONCE, |limit| {
                usize::try_from(limit / 2).unwrap_or(usize::MAX).clamp(NAMED, NAMED_AT_ONCE)
            }),
            config,
            options,
            journal,
            versions,
            tag_bytes: AtomicUsize::new(0),
            device,
            root,
            epoch: RwLock::new(0),
            cache: Cache::default(),
            ahead: Ahead::default(),
            scratch: Mutex::default(),
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            dirty_bytes: AtomicUsize::new(0),
            table: Mutex::default(),
            opening: Default::default(),
            dirty: Mutex::default(),
            wake: Condvar::new(),
            is_idle: AtomicBool::new(false),
            named: Mutex::default(),
            numbers: AtomicU64::new(0),
            untold: Mutex::default(),
            told: Mutex::default(),
            broken: Arc::default(),
            ending: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    pub fn disk(&self) -> &dyn Disk {
        &*self.options.disk
    }

    /// The engines for a job of `len` bytes.
    pub fn roster(&self, len: usize) -> &Roster {
        if len >= self.options.threshold { &self.options.large } else { &self.options.small }
    }

    /// The journal, unless nothing may be written any more.
    pub fn writable(&self) -> Result<&Journal> {
        let refused = self.broken.load(Ordering::Acquire) || self.closed.load(Ordering::Acquire);
        self.journal.as_ref().filter(|_| !refused).ok_or(VolumeError::ReadOnly)
    }

    /// The disk has failed: nothing is written any more, and the journal is kept for the next mount.
    pub fn break_off(&self, why: &VolumeError) {
        if !self.broken.swap(true, Ordering::AcqRel) {
            self.tell(&format!("the volume is read-only from now on: {why}"));
        }
    }

    pub fn tell(&self, what: &str) {
        (self.options.on_damage)(what);
    }

    /// Reports a damaged file, or a chunk of it, unless that has been reported before.
    pub fn tell_once(&self, key: Key, chunk: Option<u64>, what: &str) {
        /// No more than these are reported: so many mean that whole files were replaced.
        const TOLD: usize = 10_000;
        let mut told = self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if told.len() < TOLD && told.insert((key, chunk)) {
            drop(told);
            self.tell(what);
        }
    }

    /// Records that changes of a file were dropped. Until a sync has reported it, everyone who opens the file gets the
    /// error.
    pub fn remember_drop(&self, id: [u8; 16], why: Errno) {
        /// For more files, only the log reports it.
        const FILES: usize = 100_000;
        let mut untold = self.untold();
        if untold.len() < FILES {
            untold.insert(id, why);
        }
    }

    pub fn drop_of(&self, id: [u8; 16]) -> Option<Errno> {
        self.untold().get(&id).copied()
    }

    pub fn forget_drop(&self, id: [u8; 16]) {
        self.untold().remove(&id);
    }

    /// A number that no other `Backing` has.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that the journal names this file in this epoch, or that it is new. It is synced when the epoch ends.
    pub fn name(&self, owner: Owner, file: &Arc<File>, is_fresh: bool) {
        let mut named = self.named();
        let keeps = !self.syncs_at_once || named.files.len() < SYNCED_EACH;
        named.files.entry(owner).or_insert_with(|| (keeps.then(|| file.clone()), is_fresh)).1 = is_fresh;
    }

    /// The present epoch, if the file was created in it and nothing of it has ever been synced.
    pub fn fresh(&self, owner: Owner) -> Option<u64> {
        self.named().fresh(owner)
    }

    /// Whether the epoch should end before the next commit.
    pub fn should_end_epoch(&self) -> bool {
        let limit = if self.syncs_at_once { self.named_at_once } else { NAMED };
        if self.versions.as_ref().is_some_and(|versions| versions.wants_epoch(self.named_at_once)) {
            return true;
        }
        self.journal.as_ref().is_some_and(Journal::is_filling) || self.named().files.len() >= limit
    }

    /// Syncs all files that the journal names, and begins a new epoch. The caller holds no lock of the epoch.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_in(&mut self.epoch.write().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Ends the last epoch, and then calls `end` and gives the space of the journal back. A commit that another thread has
    /// begun is finished before; one that begins later fails, since nothing would sync it or keep its transaction.
    pub fn close(&self, end: impl FnOnce()) -> Result<()> {
        let mut epoch = self.epoch.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let ended = self.checkpoint_in(&mut epoch);
        self.closed.store(true, Ordering::Release);
        end();
        if let (Ok(()), Some(journal)) = (&ended, &self.journal) {
            // It is empty already.
            let _ = self.disk().set_len(&journal.file, 0);
        }
        ended
    }

    fn checkpoint_in(&self, epoch: &mut u64) -> Result<()> {
        let journal = self.writable()?;
        let needs_batch = self.versions.as_ref().is_some_and(Versions::needs_batch);
        if journal.last().is_none() && self.named().files.is_empty() && !needs_batch {
            return Ok(());
        }
        let ended = self.sync_named().map_err(Failed::Hard).and_then(|()| match &self.versions {
            Some(versions) => self.end_epoch(versions, journal),
            None => journal.trim(self.disk()),
        });
        let ended = match ended {
            // The journal stays, and so does everything that it has.
            Err(Failed::Softly(why)) => return Err(why),
            Err(Failed::Hard(why)) => Err(why),
            Ok(()) => Ok(()),
        };
        match ended {
            Ok(()) => {
                *epoch += 1;
                self.named().begin(*epoch);
            }
            // Unsynced changes may be lost, and a second sync would not report that. The journal still has them.
            Err(ref why) => self.break_off(why),
        }
        ended
    }

    fn sync_named(&self) -> Result<()> {
        let failed = |e| VolumeError::io("cannot sync a file", e);
        let files: Vec<_> = self.named().files.values().map(|(file, _)| file.clone()).collect();
        let all_at_once = files.iter().any(Option::is_none);
        if !(all_at_once && self.syncs_at_once) {
            files.iter().flatten().try_for_each(|file| self.disk().sync_all(file)).map_err(failed)?;
        }
        if all_at_once { self.disk().sync_file_system(&self.root).map_err(failed) } else { Ok(()) }
    }

    /// Closes the descriptor of a file without a name that nobody uses any more, so that its space is free. Until the
    /// removal is on the disk, a power cut can bring the file back. So the file system is synced before the journal
    /// forgets the file, unless nothing of it has been synced.
    fn forget_removed(&self, owner: Owner) {
        let mut named = self.named();
        let dropped = match named.files.get_mut(&owner) {
            Some((_, true)) => named.files.remove(&owner).and_then(|(file, _)| file),
            Some((file, false)) => file.take(),
            None => None,
        };
        drop(named);
        drop(dropped);
    }

    /// Records that a file has changes in memory.
    pub fn add_dirty(&self, key: Key, file: Arc<F>) {
        let mut dirty = self.dirty();
        if self.is_idle.swap(false, Ordering::Relaxed) {
            self.wake.notify_all();
        }
        dirty.entry(key).or_insert_with(|| Dirty { file, since: Instant::now() });
    }

    /// Records that a file has no changes in memory any more.
    pub fn remove_dirty(&self, key: Key) {
        let removed = self.dirty().remove(&key);
        drop(removed);
    }

    /// Commits files until there is room for this many more bytes. The caller holds no lock of a file.
    pub fn make_room(&self, len: usize) {
        while self.dirty_bytes.load(Ordering::Relaxed) + len > self.options.dirty_limit {
            let largest = {
                let dirty = self.dirty();
                dirty.values().max_by_key(|dirty| dirty.file.dirty_bytes()).map(|dirty| dirty.file.clone())
            };
            let Some(largest) = largest else { break };
            if !largest.commit_quietly() {
                break;
            }
        }
    }

    /// Forgets a `Backing` that is dropped.
    pub fn forget(&self, key: Key, number: u64, owner: Owner, file: &File) {
        self.cache.forget(number);
        self.ahead.forget(number);
        if self.journal.is_some() && fstat(file).is_ok_and(|stat| stat.st_nlink == 0) {
            self.forget_removed(owner);
            self.forget_drop(owner.id);
        }
        let mut table = self.table();
        if table.get(&key).is_some_and(|weak| weak.strong_count() == 0) {
            table.remove(&key);
        }
        drop(table);
        if let Some(versions) = &self.versions {
            versions.closed(owner.id, key);
        }
    }

    pub fn find(&self, key: Key) -> Option<Arc<F>> {
        self.table().get(&key).and_then(Weak::upgrade)
    }

    pub fn all_dirty(&self) -> Vec<Arc<F>> {
        self.dirty().values().map(|dirty| dirty.file.clone()).collect()
    }

    /// Makes the thread in the background end soon.
    pub fn end_thread(&self) {
        self.ending.store(true, Ordering::Release);
        let _woken = self.dirty();
        self.wake.notify_all();
    }

    /// Drops all changes that are only in memory.
    pub fn drop_changes(&self) {
        // Each of them holds this list.
        let left = std::mem::take(&mut *self.dirty());
        drop(left);
    }

    /// The work of the thread in the background.
    pub fn commit_in_background(&self) {
        loop {
            let due: Vec<Arc<F>>;
            {
                let dirty = self.dirty();
                if self.ending.load(Ordering::Acquire) {
                    return;
                }
                let age = |dirty: &Dirty<F>| dirty.since.elapsed();
                let wait = dirty.values().map(|dirty| self.options.commit_after.saturating_sub(age(dirty))).min();
                // An idle thread is woken by the next change. Otherwise it looks again by itself, so that programs that
                // write small files do not wake it for each.
                self.is_idle.store(wait.is_none(), Ordering::Relaxed);
                let wait = wait.unwrap_or(self.options.trim_after).max(Duration::from_millis(10));
                let (dirty, _) = self.wake.wait_timeout(dirty, wait).unwrap_or_else(|poisoned| poisoned.into_inner());
                if self.ending.load(Ordering::Acquire) {
                    return;
                }
                if self.writable().is_err() {
                    drop(self.wake.wait_timeout(dirty, self.options.trim_after));
                    continue;
                }
                let is_due = |dirty: &&Dirty<F>| age(dirty) >= self.options.commit_after;
                due = dirty.values().filter(is_due).map(|dirty| dirty.file.clone()).collect();
            }
            for file in &due {
                file.commit_quietly();
            }
            let is_idle = |last: Instant| last.elapsed() >= self.options.trim_after;
            let is_long = |first: Instant| self.versions.is_some() && first.elapsed() >= LONGEST;
            let journal = self.journal.as_ref();
            let ends = journal.and_then(Journal::last).is_some_and(is_idle)
                || journal.and_then(Journal::first).is_some_and(is_long);
            if ends && self.writable().is_ok() {
                // Its failure has been reported.
                let _ = self.checkpoint();
            }
        }
    }

    pub fn table(&self) -> MutexGuard<'_, HashMap<Key, Weak<F>>> {
        self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn untold(&self) -> MutexGuard<'_, HashMap<[u8; 16], Errno>> {
        self.untold.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn dirty(&self) -> MutexGuard<'_, HashMap<Key, Dirty<F>>> {
        self.dirty.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Room for records, as many as a part of a commit or a read has. All files have chunks of one shape.
    pub fn records(&self, chunks: &Chunks, count: usize) -> Result<Records> {
        let len = count * (chunks.overhead() + chunks.chunk_len());
        let free = {
            let mut scratch = self.scratch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            // Much longer ones would be counted in full, and would be missing where they are needed.
            let fits = |records: &Records| (len..=2 * len).contains(&records.bytes().len());
            scratch.iter().position(fits).and_then(|place| scratch.swap_remove_back(place))
        };
        match free {
            Some(records) => Ok(records),
            None => Ok(chunks.records(count, chunks.chunk_len())?),
        }
    }

    /// Takes them back. `used` bytes of them hold plaintext.
    pub fn give_records(&self, mut records: Records, used: usize) {
        /// The most that one file has in memory, and a little more for reads. Fresh memory costs more than sealing.
        const KEPT: usize = 28 << 20;
        const COUNT: usize = 64;
        let used = used.min(records.bytes().len());
        records.bytes_mut()[..used].fill(0);
        zeroize::optimization_barrier(&records.bytes_mut()[..used]);
        let mut scratch = self.scratch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        scratch.push_back(records);
        let mut kept: usize = scratch.iter().map(|records| records.bytes().len()).sum();
        // The oldest are dropped, so that the lengths in use now stay.
        let mut gone = Vec::new();
        while scratch.len() > COUNT || kept > KEPT {
            let Some(oldest) = scratch.pop_front() else { break };
            kept -= oldest.bytes().len();
            gone.push(oldest);
        }
        drop(scratch);
        drop(gone);
    }

    /// Opens the header of a stored file.
    pub fn header(&self, file: &File) -> Result<header::Opened> {
        header::read(file, &self.config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_fresh_in_the_epoch_in_which_it_was_created() {
        let (mut named, owner) = (Named::default(), Owner { inode: 7, id: [1; 16] });
        assert_eq!(named.fresh(owner), None);
        named.files.insert(owner, (None, true));
        assert_eq!(named.fresh(owner), Some(0));
        named.begin(1);
        assert_eq!(named.fresh(owner), None, "the end of the epoch has synced it");
        // It is changed.
        named.files.insert(owner, (None, false));
        assert_eq!(named.fresh(owner), None);
        named.files.insert(Owner { inode: 8, ..owner }, (None, true));
        assert_eq!(named.fresh(Owner { inode: 8, ..owner }), Some(1));
    }
}
