//! The table of versions: which state of each file is the last (`docs/format-versions.md`). It is in memory
//! while the volume is mounted, and a checkpoint appends what has changed.

mod accept;
pub(crate) mod batch;

use crate::disk::Disk;
use crate::error::{Result, VolumeError};
use crate::folder::{Fresh, NEW, SAFELY, give_to_owner};
use crate::shared::Key;
pub(crate) use batch::Version;
use batch::{Found, Id};
use phalanx_core::volume::{Config, VolumeKeys};
use phalanx_host::lock::lock;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, fsync, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub use accept::{Accepted, accept};

/// The name of the table in the root folder of a volume.
pub const VERSIONS: &str = "phalanx.versions";

/// Space that is kept reserved behind the table, in bytes, so that a full disk does not keep a checkpoint from ending: while
/// it is mounted and there is much, and always.
const RESERVED: u64 = 4 << 20;
const LEAST_RESERVED: u64 = 64 << 10;
/// A table that is longer than twice a new one and this is made anew, in bytes.
const SLACK: u64 = 64 << 10;
/// How many folders are kept open to be synced. With more, the whole file system is synced.
const FOLDERS: usize = 16;

/// The last state of a volume, for what is remembered of it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Names the volume.
    pub volume: [u8; 16],
    /// Grows with each checkpoint.
    pub number: u64,
    /// Tells two states of the same number apart.
    pub mac: [u8; 32],
}

/// What the table says of a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Latest,
    Other,
    Unknown,
}

/// Why a checkpoint has failed.
pub(crate) enum Failed {
    /// Nothing is lost, and the next one may succeed: there is no space.
    Softly(VolumeError),
    /// Nothing may be written any more.
    Hard(VolumeError),
}

/// The table of a volume that is mounted.
pub(crate) struct Versions {
    root: OwnedFd,
    inner: Mutex<Inner>,
    /// Whether a new epoch is wanted because this mount has begun none yet.
    is_wanted: AtomicBool,
}

struct Inner {
    file: Arc<File>,
    found: Found,
    /// Whether this mount has appended a batch, so that the epoch is its own.
    has_begun: bool,
    /// The entries that were set or removed since the last batch.
    changed: HashSet<Id>,
    /// The files that are open, each with how often.
    open: HashMap<Id, (Key, usize)>,
    /// The folders in which files were removed since the last batch, and whether there were more.
    folders: Vec<(u64, Arc<OwnedFd>)>,
    has_more_folders: bool,
    /// The files that were opened, if somebody counts them.
    seen: Option<HashSet<Id>>,
    /// Up to where space was reserved.
    reserved: u64,
}

impl Versions {
    /// Opens the table of a volume; `None` for a volume that has none.
    ///
    /// # Errors
    /// [`VolumeError::Versions`] if it is missing or was altered. Otherwise if it cannot be read.
    pub fn open(root: &OwnedFd, config: &Config, disk: &dyn Disk, read_only: bool) -> Result<Option<Self>> {
        if !config.features().rollback_protection {
            return Ok(None);
        }
        let file = open_file(root, if read_only { OFlags::RDONLY } else { OFlags::RDWR })?;
        let Some(file) = file else { return Err(VolumeError::Versions("is missing")) };
        if !read_only {
            // What a killed run has written may not be on the disk yet, and more is built on it.
            let synced = disk.sync_data(&file).and_then(|()| Ok(sync_root(root)?));
            synced.map_err(|e| VolumeError::Io { what: "cannot sync the table of versions", error: e })?;
        }
        let (found, is_altered) = batch::read(&file, config.keys())?;
        if found.end == 0 || is_altered {
            return Err(VolumeError::Versions("was altered"));
        }
        Self::new(root, file, found).map(Some)
    }

    fn new(root: &OwnedFd, file: File, found: Found) -> Result<Self> {
        let root = root.try_clone().map_err(|e| VolumeError::io("cannot copy a descriptor", e))?;
        let inner = Inner {
            file: Arc::new(file),
            found,
            has_begun: false,
            changed: HashSet::new(),
            open: HashMap::new(),
            folders: Vec::new(),
            has_more_folders: false,
            seen: None,
            reserved: 0,
        };
        Ok(Self { root, inner: Mutex::new(inner), is_wanted: AtomicBool::new(false) })
    }

    /// The id of the journal's epoch.
    pub fn epoch(&self) -> [u8; 16] {
        epoch_of(&self.lock().found)
    }

    pub fn generation(&self, keys: &VolumeKeys) -> Generation {
        let inner = self.lock();
        Generation { volume: keys.volume_id(), number: inner.found.generation, mac: inner.found.mac }
    }

    /// Compares a file's header with the table.
    pub fn check(&self, id: Id, version: Version) -> Verdict {
        let mut inner = self.lock();
        if let Some(seen) = &mut inner.seen {
            seen.insert(id);
        }
        match inner.found.entries.get(&id) {
            Some(known) if known.is_of(version) => Verdict::Latest,
            Some(_) => Verdict::Other,
            None => Verdict::Unknown,
        }
    }

    /// The entry of a file.
    pub fn get(&self, id: Id) -> Option<Version> {
        self.lock().found.entries.get(&id).copied()
    }

    /// From now on, remembers which files are opened.
    pub fn count_files(&self) {
        self.lock().seen.get_or_insert_default();
    }

    /// How many files of the table were not opened since [`Versions::count_files`].
    pub fn missing(&self) -> u64 {
        let inner = self.lock();
        let is_seen = |id: &&Id| inner.seen.as_ref().is_none_or(|seen| seen.contains(*id));
        (inner.found.entries.len() - inner.found.entries.keys().filter(is_seen).count()) as u64
    }

    /// Records the state of a file that is new, or was found.
    pub fn insert(&self, id: Id, version: Version) {
        let mut inner = self.lock();
        let version = version.after(inner.found.entries.get(&id).copied());
        inner.found.entries.insert(id, version);
        inner.changed.insert(id);
    }

    /// Records the new state of a file. One that was removed stays so.
    pub fn set(&self, id: Id, version: Version) {
        let mut inner = self.lock();
        if let Some(entry) = inner.found.entries.get_mut(&id) {
            *entry = version.after(Some(*entry));
            inner.changed.insert(id);
        }
    }

    /// Records that a file has several names.
    pub fn link(&self, id: Id) {
        let mut inner = self.lock();
        if let Some(version) = inner.found.entries.get_mut(&id) {
            *version = version.linked();
            inner.changed.insert(id);
        }
    }

    /// Records that there is no such file, wherever it was.
    pub fn remove(&self, id: Id) {
        let mut inner = self.lock();
        if inner.found.entries.remove(&id).is_some() {
            inner.changed.insert(id);
            inner.has_more_folders = true;
        }
    }

    /// Records that a file was removed from a folder. The caller holds the lock of the epoch.
    pub fn gone(&self, id: Id, folder: (u64, &Arc<OwnedFd>)) {
        let mut inner = self.lock();
        inner.found.entries.remove(&id);
        inner.changed.insert(id);
        if inner.folders.iter().any(|(number, _)| *number == folder.0) {
            return;
        }
        if inner.folders.len() < FOLDERS {
            inner.folders.push((folder.0, folder.1.clone()));
        } else {
            inner.has_more_folders = true;
        }
    }

    /// Records that a file is open. Returns `false` if another stored file with its id is: a copy that was made from
    /// outside. Only one of them could be the last version after a change.
    pub fn opened(&self, id: Id, key: Key) -> bool {
        let mut inner = self.lock();
        let open = inner.open.entry(id).or_insert((key, 0));
        let is_it = open.0 == key;
        open.1 += usize::from(is_it);
        is_it
    }

    /// Records that nobody uses an open file any more.
    pub fn closed(&self, id: Id, key: Key) {
        let mut inner = self.lock();
        if let Some(open) = inner.open.get_mut(&id).filter(|open| open.0 == key) {
            open.1 = open.1.saturating_sub(1);
            if open.1 == 0 {
                inner.open.remove(&id);
            }
        }
    }

    /// Whether a new epoch has to begin before the next commit: this mount has begun none yet, or so many entries have
    /// changed that the next mount could not open all files after a kill.
    pub fn wants_epoch(&self, most: usize) -> bool {
        let wants = {
            let inner = self.lock();
            !inner.has_begun || inner.changed.len() >= most
        };
        if wants {
            self.is_wanted.store(true, Ordering::Release);
        }
        wants
    }

    /// Makes the next checkpoint begin an epoch, even if there is nothing to append.
    pub fn want_epoch(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Whether a checkpoint has something to append, or was asked for.
    pub fn needs_batch(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire) || !self.lock().changed.is_empty()
    }

    /// Syncs the folders in which files were removed, and appends what has changed. Nothing changes the table meanwhile.
    /// Returns the id of the new epoch.
    pub fn checkpoint(
        &self,
        disk: &dyn Disk,
        keys: &VolumeKeys,
        is_room: impl Fn() -> bool,
    ) -> Result<[u8; 16], Failed> {
        self.sync_folders(disk).map_err(Failed::Hard)?;
        if self.lock().changed.len() > batch::MOST {
            return self.renew(disk, keys);
        }
        self.append(disk, keys, is_room)
    }

    /// Makes the table anew if it has become long. Nothing changes the table meanwhile, and the journal is empty. Returns
    /// the id of the new epoch.
    pub fn compact(&self, disk: &dyn Disk, keys: &VolumeKeys) -> Result<Option<[u8; 16]>, Failed> {
        let is_long = {
            let inner = self.lock();
            inner.found.end > 2 * batch::len_of(inner.found.entries.len(), 0) as u64 + SLACK
        };
        if is_long { self.renew(disk, keys).map(Some) } else { Ok(None) }
    }

    fn sync_folders(&self, disk: &dyn Disk) -> Result<()> {
        let (folders, has_more) = {
            let inner = self.lock();
            (inner.folders.clone(), inner.has_more_folders)
        };
        let failed = |e| VolumeError::Io { what: "cannot sync a folder", error: e };
        let mut syncs_all = has_more;
        for (_, folder) in &folders {
            match fsync(folder) {
                Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => {}
                // Its descriptor is good only for going through it.
                Err(Errno::BADF) => syncs_all = true,
                Err(e) => return Err(failed(e.into())),
            }
        }
        if syncs_all {
            let root = self.root.try_clone().map(File::from).map_err(failed)?;
            disk.sync_file_system(&root).map_err(failed)?;
        }
        let mut inner = self.lock();
        (inner.folders, inner.has_more_folders) = (Vec::new(), false);
        Ok(())
    }

    /// Appends what has changed. The lock is not held while the disk works, so that files can be opened meanwhile.
    fn append(&self, disk: &dyn Disk, keys: &VolumeKeys, is_room: impl Fn() -> bool) -> Result<[u8; 16], Failed> {
        let (file, end, generation, before, (set, removed)) = {
            let inner = self.lock();
            let found = &inner.found;
            (inner.file.clone(), found.end, next(found.generation).map_err(Failed::Hard)?, found.mac, inner.changes())
        };
        let (bytes, mac) = batch::seal(keys, &before, generation, &set, &removed).map_err(Failed::Softly)?;
        write_at_end(disk, &file, &bytes, end).inspect_err(|_| self.lock().reserved = 0)?;
        let mut inner = self.lock();
        inner.found.end = end + bytes.len() as u64;
        (inner.found.generation, inner.found.mac) = (generation, mac);
        self.has_begun(&mut inner);
        let epoch = epoch_of(&inner.found);
        let is_short = inner.found.end + LEAST_RESERVED > inner.reserved;
        drop(inner);
        if is_short {
            self.reserve(disk, is_room());
        }
        Ok(epoch)
    }

    fn has_begun(&self, inner: &mut Inner) {
        inner.changed = HashSet::new();
        inner.has_begun = true;
        self.is_wanted.store(false, Ordering::Release);
    }

    /// Replaces the table by a new one with the same entries.
    fn renew(&self, disk: &dyn Disk, keys: &VolumeKeys) -> Result<[u8; 16], Failed> {
        let mut inner = self.lock();
        let generation = next(inner.found.generation).map_err(Failed::Softly)?;
        let (bytes, found) = batch::whole(keys, &inner.found.entries, generation).map_err(Failed::Softly)?;
        let file = replace(&self.root, disk, &bytes)?;
        (inner.file, inner.reserved) = (Arc::new(file), 0);
        (inner.found.generation, inner.found.mac, inner.found.end) = (found.generation, found.mac, found.end);
        self.has_begun(&mut inner);
        Ok(epoch_of(&inner.found))
    }

    /// Reserves space behind the table. If there is none, the table grows as it is written.
    pub fn reserve(&self, disk: &dyn Disk, is_room: bool) {
        let mut inner = self.lock();
        let lens = [RESERVED, LEAST_RESERVED];
        for len in &lens[usize::from(!is_room)..] {
            if disk.reserve(&inner.file, inner.found.end, *len).is_ok() {
                inner.reserved = inner.found.end + len;
                return;
            }
        }
        inner.reserved = 0;
    }

    /// Gives most of the reserved space back.
    pub fn end(&self, disk: &dyn Disk) {
        {
            let inner = self.lock();
            if inner.reserved <= inner.found.end + LEAST_RESERVED {
                return;
            }
            let _ = disk.set_len(&inner.file, inner.found.end);
        }
        self.reserve(disk, false);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Inner {
    /// The entries that were set and removed since the last batch.
    fn changes(&self) -> (Vec<(Id, Version)>, Vec<Id>) {
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for id in &self.changed {
            match self.found.entries.get(id) {
                Some(version) => set.push((*id, *version)),
                None => removed.push(*id),
            }
        }
        set.sort_unstable();
        removed.sort_unstable();
        (set, removed)
    }
}

fn next(generation: u64) -> Result<u64> {
    generation.checked_add(1).ok_or(VolumeError::Versions("is at its last generation"))
}

/// Writes a batch behind the others, and syncs it. If there is no space, the table is as it was.
fn write_at_end(disk: &dyn Disk, file: &File, bytes: &[u8], end: u64) -> Result<(), Failed> {
    let failed = |e| VolumeError::io("cannot write the table of versions", e);
    // What a killed run has left behind the table would look as if it had been altered.
    if file.metadata().map_err(|e| Failed::Hard(failed(e)))?.len() > end {
        // A part of it that comes back after a power cut would be the end of the next one.
        let cut = disk.set_len(file, end).and_then(|()| disk.sync_data(file));
        cut.map_err(|e| Failed::Hard(failed(e)))?;
    }
    if let Err(e) = disk.write(file, bytes, end) {
        return Err(match (failed(e), disk.set_len(file, end)) {
            (VolumeError::Full, Ok(())) => Failed::Softly(VolumeError::Full),
            (e, _) => Failed::Hard(e),
        });
    }
    disk.sync_data(file).map_err(|e| {
        // The next mount must not take it for one that is on the disk.
        let _ = disk.set_len(file, end);
        Failed::Hard(VolumeError::Io { what: "cannot sync the table of versions", error: e })
    })
}

fn epoch_of(found: &Found) -> [u8; 16] {
    *found.mac.first_chunk().expect("a MAC is longer")
}

/// Opens the table; `None` if there is none. Nothing else in its place is opened.
fn open_file(root: &OwnedFd, access: OFlags) -> Result<Option<File>> {
    let failed = |e| VolumeError::io("cannot open the table of versions", e);
    let file = match openat(root, VERSIONS, access | SAFELY, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        // A link, a socket, or a device without a driver.
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::ISDIR) => {
            return Err(VolumeError::Versions("was altered"));
        }
        Err(e) => return Err(failed(e)),
    };
    let stat = fstat(&file).map_err(failed)?;
    // A second name may belong to somebody else's file.
    let is_ours = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1;
    if is_ours { Ok(Some(file)) } else { Err(VolumeError::Versions("was altered")) }
}

fn sync_root(root: &OwnedFd) -> Result<(), Errno> {
    match fsync(root) {
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Puts a new table in place of the old one. It is on the disk before it replaces that, and its name is afterwards.
fn replace(root: &OwnedFd, disk: &dyn Disk, bytes: &[u8]) -> Result<File, Failed> {
    let failed = |e: Errno| VolumeError::io("cannot write the table of versions", e);
    let fresh = Fresh::new().map_err(Failed::Softly)?;
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | SAFELY;
    let made = fresh.make(NEW, |name| openat(root, name, how, Mode::RUSR | Mode::WUSR));
    let (name, file) = made.map_err(Failed::Softly)?;
    let file = File::from(file);
    let write = || {
        if let Ok(old) = statat(root, VERSIONS, AtFlags::SYMLINK_NOFOLLOW)
            && FileType::from_raw_mode(old.st_mode) == FileType::RegularFile
        {
            fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o666)).map_err(failed)?;
        }
        give_to_owner(&file, root).map_err(failed)?;
        let written = disk.write(&file, bytes, 0).and_then(|()| disk.sync_data(&file));
        written.map_err(|e| VolumeError::io("cannot write the table of versions", e))?;
        match renameat(root, &*name, root, VERSIONS) {
            // A disk or a network can report as failed what it did.
            Err(errno) if !is_named(&file, root) => Err(failed(errno)),
            _ => Ok(()),
        }
    };
    write().map_err(|e| {
        let _ = unlinkat(root, &*name, AtFlags::empty());
        Failed::Softly(e)
    })?;
    match sync_root(root) {
        Ok(()) => Ok(file),
        Err(e) => Err(Failed::Hard(VolumeError::Io { what: "cannot sync the volume's folder", error: e.into() })),
    }
}

/// Whether a file has the name of the table.
fn is_named(file: &File, root: &OwnedFd) -> bool {
    let (Ok(file), Ok(named)) = (fstat(file), statat(root, VERSIONS, AtFlags::SYMLINK_NOFOLLOW)) else { return false };
    (file.st_dev, file.st_ino) == (named.st_dev, named.st_ino)
}

/// Writes the table of a new volume, and syncs it.
///
/// # Errors
/// If something is in its place, or it cannot be written.
pub fn init(root: &OwnedFd, config: &Config) -> Result<()> {
    if !config.features().rollback_protection {
        return Ok(());
    }
    let (bytes, _) = batch::whole(config.keys(), &Default::default(), 1)?;
    if open_file(root, OFlags::RDONLY)?.is_some_and(|file| !is_empty_table(&file)) {
        return Err(Errno::EXIST.into());
    }
    match replace(root, &crate::disk::System, &bytes) {
        Ok(_) => Ok(()),
        Err(Failed::Softly(e) | Failed::Hard(e)) => Err(e),
    }
}

/// Whether this is the table of a volume without files, which a killed [`crate::create`] has left. Nothing is lost with it.
pub(crate) fn is_left(root: &OwnedFd) -> bool {
    open_file(root, OFlags::RDONLY).is_ok_and(|file| file.is_some_and(|file| is_empty_table(&file)))
}

fn is_empty_table(file: &File) -> bool {
    let mut head = [0; batch::HEAD];
    let is_short = file.metadata().is_ok_and(|metadata| metadata.len() == batch::len_of(0, 0) as u64);
    is_short && file.read_exact_at(&mut head, 0).is_ok() && head.starts_with(b"PHXVERS1") && head[32..] == [0; 8]
}
