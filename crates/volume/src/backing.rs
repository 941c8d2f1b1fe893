//! One stored file: what lies on the disk, and the changes to it that are only in memory.

pub(crate) mod ahead;
pub(crate) mod cache;
mod commit;
mod content;
pub(crate) mod drops;
mod early;
mod holes;
pub(crate) mod page;
mod plan;
mod read;
mod read_ahead;
mod sealed;
mod state;
mod write;

use crate::backing::drops::Drops;
use crate::error::{Result, VolumeError};
use crate::header;
use crate::journal::{Owner, Table};
use crate::shared::Key;
use crate::versions::{Verdict, Version};
use content::{Content, Stored};
use phalanx_core::format::{FileKeys, Header};
use phalanx_core::volume::{Chunks, Holes, Place, Sums};
use rustix::fs::{OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fcntl_getfl, fstat, futimens};
use rustix::io::Errno;
use state::KnownTags;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the stored files of a mount share.
pub(crate) type Shared = crate::shared::Shared<Backing>;

/// One stored file of a mounted volume. Changes go to memory; [`Backing::commit`] and [`Backing::sync`] store them, and
/// the store commits by itself when they get old or many.
pub struct Backing {
    me: Weak<Backing>,
    shared: Arc<Shared>,
    file: Arc<File>,
    key: Key,
    number: u64,
    owner: Owner,
    keys: FileKeys,
    chunks: Chunks,
    /// In a volume with a table of versions.
    sums: Option<Sums>,
    tags: Mutex<KnownTags>,
    content: RwLock<Content>,
    /// The length of the plaintext with the changes in memory.
    len: AtomicU64,
    /// The memory of the changes, in bytes.
    dirty_bytes: AtomicUsize,
    reads: ahead::Reads,
    /// When the file was changed last, if only memory has the change.
    mtime: Mutex<Option<Timespec>>,
    /// Whether the descriptor can be written to: a file without the permission to write is opened for reading only.
    can_write: bool,
    /// Whether a sync has to sync the file itself: its name or its existence may not be on the disk yet.
    needs_fsync: AtomicBool,
    /// Whether its times were set and may not be on the disk yet.
    times_set: AtomicBool,
}

/// The times of a file that its users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The last access.
    pub accessed: Timespec,
    /// The last change of the content.
    pub modified: Timespec,
}

impl Backing {
    pub(crate) fn create(
        shared: &Arc<Shared>,
        file: File,
        key: Key,
        header: Header,
        keys: FileKeys,
    ) -> Result<Arc<Self>> {
        let chunks = Chunks::new(&header, &keys);
        let mut records = chunks.records(1, 0)?;
        chunks.seal(shared.roster(0), &mut records, &[Place { index: 0, last: true, len: 0 }])?;
        let (header, state) = match &shared.versions {
            Some(_) => {
                let state = state::first(&keys, records.record(0, 0));
                (shared.config.with(&header, &keys, &Holes::default(), Some(&state))?, Some(state))
            }
            None => (header, None),
        };
        let bytes = [header.bytes(), records.bytes()].concat();
        shared.disk().write(&file, &bytes, 0).map_err(|e| VolumeError::io("cannot write a new file", e))?;
        // Even if nothing more is written to it, it is synced when the volume is unmounted.
        let epoch = match &shared.versions {
            Some(versions) => {
                let (id, version) = (keys.volume_file_id(), Version::of(header.bytes()));
                let mut table = Table::default();
                table.known(Owner { inode: key.1, id }, &version.0);
                let (_, epoch) = shared.append(&table)?;
                versions.insert(id, version);
                epoch
            }
            None => {
                if shared.should_end_epoch() {
                    shared.checkpoint()?;
                }
                shared.epoch.read().unwrap_or_else(|poisoned| poisoned.into_inner())
            }
        };
        let layout = header.layout_for_plaintext(0)?;
        let stored = Stored { header, layout, holes: Holes::default(), state };
        let backing = Self::new(shared, file, key, stored, keys, Some(*epoch))?;
        shared.name(backing.owner, &backing.file, true);
        Ok(backing)
    }

    pub(crate) fn open(shared: &Arc<Shared>, file: File, key: Key) -> Result<Arc<Self>> {
        let damaged = |what: &str| {
            let text = format!("the stored file with inode {} is damaged: {what}", key.1);
            shared.tell_once(key, None, &text);
            VolumeError::Damaged(text)
        };
        let checked = shared.header(&file);
        let header::Opened { header, keys, holes, state } = checked.map_err(|e| match e {
            VolumeError::Core(e) if !matches!(e, phalanx_core::Error::Read(_)) => damaged(&e.to_string()),
            e => e,
        })?;
        let stat = fstat(&file).map_err(|e| VolumeError::io("cannot look at a stored file", e))?;
        let layout = header.layout_for_file(stat.st_size as u64).map_err(|e| damaged(&e.to_string()))?;
        if holes.ranges().last().is_some_and(|hole| hole.end >= layout.chunks()) {
            return Err(damaged("a hole lies at its end"));
        }
        if state.as_ref().is_some_and(|state| !state.fits(layout.chunks())) {
            return Err(damaged("it has another length than its header says"));
        }
        if let Some(versions) = &shared.versions {
            match versions.check(keys.volume_file_id(), Version::of(header.bytes())) {
                Verdict::Latest => {}
                // A name was looked up before it was removed.
                _ if fstat(&file).is_ok_and(|now| now.st_nlink == 0) => return Err(VolumeError::Refused(Errno::STALE)),
                Verdict::Other => return Err(damaged("it is not the last version of this file")),
                Verdict::Unknown => {
                    return Err(damaged("it was removed before, or a power cut came before it was synced"));
                }
            }
        }
        let fresh = shared.fresh(Owner { inode: key.1, id: keys.volume_file_id() });
        let stored = Stored { header, layout, holes, state };
        let backing = Self::new(shared, file, key, stored, keys, fresh)?;
        backing.write_content().drops = Drops::found(shared.drop_of(backing.owner.id));
        // The length is authentic if the last chunk is.
        let content = backing.read_content();
        backing.cached(&content, layout.chunks() - 1)?;
        drop(content);
        Ok(backing)
    }

    fn new(
        shared: &Arc<Shared>,
        file: File,
        key: Key,
        stored: Stored,
        keys: FileKeys,
        fresh: Option<u64>,
    ) -> Result<Arc<Self>> {
        let len = stored.layout.plaintext_len();
        let sums = stored.state.as_ref().map(|_| keys.volume_sums());
        let chunks = Chunks::new(&stored.header, &keys);
        let written = shared.journal.as_ref().map_or(0, |journal| journal.written());
        let flags = fcntl_getfl(&file).map_err(|e| VolumeError::io("cannot look at a descriptor", e))?;
        if shared.versions.as_ref().is_some_and(|versions| !versions.opened(keys.volume_file_id(), key)) {
            let text = format!("the stored file with inode {} is a copy of one that is in use", key.1);
            shared.tell_once(key, None, &text);
            return Err(VolumeError::Damaged(text));
        }
        Ok(Arc::new_cyclic(|me| Self {
            me: me.clone(),
            can_write: flags.contains(OFlags::RDWR),
            shared: shared.clone(),
            file: Arc::new(file),
            key,
            number: shared.number(),
            owner: Owner { inode: key.1, id: keys.volume_file_id() },
            sums,
            tags: Mutex::default(),
            keys,
            chunks,
            content: RwLock::new(Content::new(stored, fresh, written)),
            len: AtomicU64::new(len),
            dirty_bytes: AtomicUsize::new(0),
            reads: ahead::Reads::default(),
            mtime: Mutex::default(),
            needs_fsync: AtomicBool::new(true),
            times_set: AtomicBool::new(false),
        }))
    }

    /// The length of the plaintext in bytes, with the changes in memory.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Whether the plaintext is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stored file. Callers must not change its content.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file's id, which binds its extended attributes.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.owner.id
    }

    /// Whether the content can be changed: the file had the permission for that when it was opened.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.can_write
    }

    /// The memory that its changes take, in bytes.
    #[must_use]
    pub fn dirty_bytes(&self) -> usize {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Records that the file has a new name. The next sync makes sure that the name is on the disk.
    pub fn mark_named(&self) {
        self.needs_fsync.store(true, Ordering::Release);
    }

    /// The times that users see.
    ///
    /// # Errors
    /// If the stored file cannot be looked at.
    pub fn times(&self) -> Result<Times> {
        let pending = self.pending_mtime();
        let stat = fstat(&self.file).map_err(|e| VolumeError::io("cannot look at a stored file", e))?;
        let accessed = Timespec { tv_sec: stat.st_atime as _, tv_nsec: stat.st_atime_nsec as _ };
        Ok(Times { accessed, modified: pending.unwrap_or_else(|| modified(&stat)) })
    }

    /// Sets the time of the last change. It stays until the content changes again.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set_mtime(&self, mtime: Timespec) -> Result<()> {
        let mut pending = self.mtime.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        set_file_mtime(&self.file, mtime)?;
        // A commit that is running, or comes later, restores it.
        *pending = pending.map(|_| mtime);
        self.times_set.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether the content may be changed.
    fn check_writable(&self) -> Result<()> {
        self.shared.writable()?;
        if self.can_write { Ok(()) } else { Err(VolumeError::Refused(Errno::ACCESS)) }
    }

    fn pending_mtime(&self) -> Option<Timespec> {
        *self.mtime.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records that the content has changed now, even if the caller sets the times of changes.
    pub fn touch(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timespec { tv_sec: now.as_secs() as _, tv_nsec: now.subsec_nanos() as _ };
        *self.mtime.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(now);
    }

    /// Records that the content has changed. If the caller sets the times of changes, the time stays until the caller
    /// does so.
    fn touch_unless_told(&self) {
        if !self.shared.options.has_explicit_times {
            return self.touch();
        }
        let mut pending = self.mtime.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if pending.is_none() {
            *pending = fstat(&self.file).ok().map(|stat| modified(&stat));
        }
    }

    /// Sets the modification time that users see, after the stored file was changed in place.
    fn restore_mtime(&self) {
        let mut pending = self.mtime.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A failure here is ignored: the content is stored.
        if let Some(mtime) = pending.take() {
            let _ = set_file_mtime(&self.file, mtime);
        }
    }

    fn read_content(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write_content(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The error for a chunk that is not authentic. It is reported once.
    fn damaged(&self, index: u64) -> VolumeError {
        let text = format!("the stored file with inode {} is damaged in chunk {index}", self.owner.inode);
        self.shared.tell_once(self.key, Some(index), &text);
        VolumeError::Damaged(text)
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        self.shared.forget(self.key, self.number, self.owner, &self.file);
        let left = self.dirty_bytes();
        self.shared.dirty_bytes.fetch_sub(left, Ordering::Relaxed);
        self.forget_tags();
    }
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Backing(inode {}, {} bytes)", self.owner.inode, self.len())
    }
}

fn modified(stat: &Stat) -> Timespec {
    Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ }
}

fn set_file_mtime(file: &File, mtime: Timespec) -> Result<()> {
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
    let times = Timestamps { last_access, last_modification: mtime };
    futimens(file, &times).map_err(|e| VolumeError::io("cannot set a file's time", e))
}
