//! The tree itself: how its folders and nodes are reached, and their locks.
//!
//! Locks are taken in this order: the one for moving folders; the locks of folders, in the order of their numbers; the
//! short locks on the nodes and on the open folders, one at a time and never over a system call.

use crate::error::{Result, VolumeError};
use crate::folder::{FOLDER, Fresh, Records, SAFELY, replace};
use crate::names::{FolderId, Names, RECORD_LEN};
use crate::tree::descriptors::{Descriptors, Limits};
use crate::tree::kind::Kind;
use crate::tree::node::{Dropped, EntryPlace, Folder, Nodes, ROOT, read};
use crate::tree::removals::Removals;
use phalanx_core::volume::Config;
use phalanx_host::lock::lock;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Gives the plaintext length for a stored length, in bytes; `None` if no stored file has that length.
pub type PlainLen = Box<dyn Fn(u64) -> Option<u64> + Send + Sync>;
/// Called with what was altered from outside, once for each.
pub type OnDamage = Arc<dyn Fn(&str) + Send + Sync>;

/// How a tree is used.
pub struct TreeOptions {
    /// Whether the tree is read-only. Requests to change something then fail with `EROFS`.
    pub read_only: bool,
    /// Gives the length of files for [`Attr`](crate::tree::Attr).
    pub plain_len: PlainLen,
    /// Called with what was altered from outside, once for each.
    pub on_damage: OnDamage,
}

/// The tree of a volume. Many threads use it at once.
///
/// Entries have the number of their inode, and the root has [`ROOT`]. [`Tree::lookup`], [`Tree::lookup_entry`] and the
/// functions that make an entry count as lookups. A number that one of them returned in an [`Attr`](crate::tree::Attr)
/// is valid until it has been forgotten ([`Tree::forget`]) once for each lookup.
///
/// A node whose name has gone takes one descriptor until it is forgotten, and up to 512 folders are kept open. So the
/// caller should raise the limit of open files before opening a tree. Shortly before that limit is reached, opening a
/// file fails with `EMFILE`, so that the open ones can still be synced.
pub struct Tree {
    pub(super) root: Arc<OwnedFd>,
    device: u64,
    pub(super) names: Names,
    nodes: Mutex<Nodes>,
    pub(super) open: Mutex<Descriptors>,
    pub(super) limits: Limits,
    /// Held while a folder is moved, so that it is not moved into itself.
    pub(super) moving: Mutex<()>,
    /// The memory that all lists take, in bytes.
    pub(super) listed: Arc<AtomicUsize>,
    pub(super) fresh: Fresh,
    reported: Mutex<HashSet<u64>>,
    /// Whether the system has lost writes to a folder. It reports that only once, and a second sync would succeed.
    pub(super) is_lost: AtomicBool,
    pub(super) options: TreeOptions,
    pub(super) removals: OnceLock<Arc<dyn Removals>>,
    /// Set once the disk has failed.
    broken: OnceLock<Arc<AtomicBool>>,
    /// Whether new entries can be given to another user.
    pub(super) is_privileged: bool,
}

/// A folder that is being used.
pub(super) struct Dir {
    pub folder: Arc<Folder>,
    pub fd: Arc<OwnedFd>,
    pub id: FolderId,
}

/// Why an operation on an entry failed.
pub(super) enum Failed {
    /// The entry may have been moved meanwhile. The operation is tried again with its present place.
    Stale(VolumeError),
    /// Final: it is not tried again.
    Now(VolumeError),
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        match errno {
            // The entry is missing, or has another kind.
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => Self::Stale(Errno::STALE.into()),
            _ => Self::Now(errno.into()),
        }
    }
}

/// How many messages about damage are remembered, so that each is given once.
const MAX_REPORTED: usize = 4096;

impl Tree {
    /// Opens the tree in a root folder, which has been opened for reading.
    ///
    /// # Errors
    /// If the root cannot be read, or its `phalanx.folder` is not this volume's.
    pub fn open(root: OwnedFd, config: &Config, options: TreeOptions) -> Result<Self> {
        let stat = fstat(&root).map_err(|errno| VolumeError::io("cannot look into the root folder", errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let names = Names::new(config.keys());
        let records = Records::read(root.as_fd())?;
        let id = records.and_then(|records| records.open(&names, &[0; 16], b"")).map(|(id, _)| id);
        let id = id.ok_or_else(|| VolumeError::Damaged(format!("{FOLDER} of the root is missing or was altered")))?;
        let nodes = Nodes::new(stat.st_ino);
        let _ = nodes.folder(ROOT)?.id.set(id);
        let limits = Limits::new();
        Ok(Self {
            root: Arc::new(root),
            device: stat.st_dev,
            names,
            nodes: Mutex::new(nodes),
            open: Mutex::new(Descriptors::new(limits)),
            limits,
            moving: Mutex::default(),
            listed: Arc::default(),
            fresh: Fresh::new()?,
            reported: Mutex::default(),
            is_lost: AtomicBool::new(false),
            options,
            removals: OnceLock::new(),
            broken: OnceLock::new(),
            is_privileged: rustix::process::geteuid().is_root(),
        })
    }

    /// How many nodes are known, the root among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.nodes().len()
    }

    /// Reports damage once.
    pub(super) fn report(&self, error: &VolumeError) {
        if let VolumeError::Damaged(message) = error {
            self.report_once(message);
        }
    }

    /// Calls [`TreeOptions::on_damage`] with a message, unless that has been done before.
    pub fn report_once(&self, message: &str) {
        let mut hasher = DefaultHasher::new();
        message.hash(&mut hasher);
        let mut reported = lock(&self.reported);
        let is_new = reported.len() < MAX_REPORTED && reported.insert(hasher.finish());
        drop(reported);
        if is_new {
            (self.options.on_damage)(message);
        }
    }

    /// Reports what was altered from outside, and returns the error for it.
    pub(super) fn damaged(&self, folder: u64, stored: &[u8], what: &str) -> VolumeError {
        let error = VolumeError::Damaged(format!("{}: {what}", self.stored_path(folder, stored)));
        self.report(&error);
        error
    }

    /// Where an entry of a folder is stored, from the root on, for messages.
    pub(super) fn stored_path(&self, folder: u64, stored: &[u8]) -> String {
        let mut path: Vec<_> = {
            let nodes = self.nodes();
            let inner = nodes.ancestors(folder).filter(|number| *number != ROOT);
            inner.filter_map(|number| Some(nodes.place(number).ok()?.stored)).collect()
        };
        path.reverse();
        let path: String =
            path.iter().map(|name| format!("{}/", String::from_utf8_lossy(name).escape_debug())).collect();
        format!("{path}{}", String::from_utf8_lossy(stored).escape_debug())
    }

    /// Checks that a folder can be used and belongs where it is.
    ///
    /// # Errors
    /// `ENOTDIR` if it is none; those of [`Tree::list`].
    pub fn check_folder(&self, number: u64) -> Result<()> {
        self.dir(number).map(drop)
    }

    /// The folder for an operation, with its id. It has to belong where it is.
    pub(super) fn dir(&self, number: u64) -> Result<Dir> {
        let folder = self.nodes().folder(number)?;
        let fd = self.descriptor(number)?;
        let id = self.id(&folder)?;
        Ok(Dir { folder, fd, id })
    }

    /// The folder for an operation that changes it: [`Tree::dir`], if the tree can be written to.
    pub(super) fn dir_for_change(&self, number: u64) -> Result<Dir> {
        self.check_writable()?;
        self.dir(number)
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        let is_broken = self.broken.get().is_some_and(|broken| broken.load(Ordering::Acquire));
        if self.options.read_only || is_broken { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    /// From now on, nothing is changed once this is set. Only the first call counts.
    pub fn stop_with(&self, broken: Arc<AtomicBool>) {
        let _ = self.broken.set(broken);
    }

    /// The id of a folder, read once.
    pub(super) fn id(&self, folder: &Arc<Folder>) -> Result<FolderId> {
        if let Some(id) = folder.id.get() {
            return Ok(*id);
        }
        // This goes from the top down, because the record of each folder is bound to the id of the one above.
        let above: Vec<_> = {
            let nodes = self.nodes();
            let unread = |number: u64| nodes.folder(number).ok().filter(|folder| folder.id.get().is_none());
            nodes.ancestors(folder.number).map_while(unread).collect()
        };
        for folder in above.iter().rev() {
            self.read_id(folder)?;
        }
        folder.id.get().copied().ok_or(VolumeError::Refused(Errno::STALE))
    }

    fn read_id(&self, folder: &Folder) -> Result<()> {
        loop {
            let fd = self.descriptor(folder.number)?;
            let place = self.nodes().place(folder.number)?;
            let parent = self.nodes().folder(place.parent)?;
            // A rename of the folder holds this lock for writing.
            let _guard = read(&parent.lock);
            let now = self.nodes().place(folder.number)?;
            if now.pin.is_some() {
                return Err(Errno::NOENT.into());
            }
            if (now.parent, &now.stored) != (place.parent, &place.stored) {
                continue;
            }
            let parent_id = *parent.id.get().ok_or(VolumeError::Refused(Errno::STALE))?;
            let records = Records::read(fd.as_fd())?;
            let Some((id, alone)) = records.and_then(|records| records.open(&self.names, &parent_id, &place.stored))
            else {
                return Err(self.damaged(place.parent, &place.stored, "a folder that does not belong there"));
            };
            if let Some(record) = alone.filter(|_| self.check_writable().is_ok()) {
                // A killed run has left the record of another place. If the repair fails now, a later one may succeed.
                let _ = replace(fd.as_fd(), &self.fresh, &[record]);
            }
            let _ = folder.id.set(id);
            return Ok(());
        }
    }

    /// The record that binds a folder to a place.
    pub(super) fn record(&self, parent: &Dir, stored: &[u8], id: &FolderId) -> [u8; RECORD_LEN] {
        self.names.seal_folder(&parent.id, stored, id)
    }

    /// Runs a function on the entry of a node without any lock, with its parent's descriptor and its stored name. If
    /// the entry is not there, it may have been moved meanwhile, so the function runs again under the lock of its
    /// folder.
    pub(super) fn at<T>(
        &self,
        number: u64,
        mut run: impl FnMut(&OwnedFd, &EntryPlace) -> Result<T, Failed>,
    ) -> Result<T> {
        let mut place = self.nodes().place(number)?;
        let fd = self.descriptor(place.parent)?;
        match run(&fd, &place) {
            Ok(done) => return Ok(done),
            Err(Failed::Now(error)) => return Err(error),
            Err(Failed::Stale(_)) => {}
        }
        loop {
            let fd = self.descriptor(place.parent)?;
            let parent = self.nodes().folder(place.parent)?;
            let _guard = read(&parent.lock);
            let now = self.nodes().place(number)?;
            if now.parent == place.parent {
                return run(&fd, &now).map_err(|failed| match failed {
                    Failed::Stale(error) | Failed::Now(error) => error,
                });
            }
            place = now;
        }
    }

    /// A descriptor of a node's inode, whatever its kind. It is good for attributes only.
    pub(super) fn handle(&self, number: u64) -> Result<Arc<OwnedFd>> {
        if number == ROOT {
            return Ok(self.root.clone());
        }
        self.at(number, |fd, place| {
            if let Some(pin) = &place.pin {
                return Ok(pin.clone());
            }
            let handle = openat(fd, &*place.stored, OFlags::PATH | SAFELY, Mode::empty())?;
            self.is_its(place, &fstat(&handle)?)?;
            Ok(Arc::new(handle))
        })
    }

    /// Checks that the entry in a node's place is its inode.
    pub(super) fn is_its(&self, place: &EntryPlace, stat: &Stat) -> Result<(), Failed> {
        let is_its = self.kind(stat).is_ok_and(|kind| kind == place.kind) && stat.st_ino == place.inode;
        if is_its { Ok(()) } else { Err(Failed::Stale(Errno::STALE.into())) }
    }

    pub(super) fn kind(&self, stat: &Stat) -> Result<Kind> {
        let kind = Kind::of(FileType::from_raw_mode(stat.st_mode)).filter(|_| stat.st_dev == self.device);
        kind.ok_or_else(|| {
            let error = VolumeError::Damaged("another file system is mounted in the volume's folder".into());
            self.report(&error);
            error
        })
    }

    pub(super) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// Drops these values, which closes descriptors. No lock may be held.
    pub(super) fn drop_all(&self, dropped: Dropped) {
        if !dropped.folders.is_empty() {
            let mut open = lock(&self.open);
            let closed: Vec<_> = dropped.folders.iter().filter_map(|number| open.remove(*number)).collect();
            drop(open);
            drop(closed);
        }
        drop(dropped);
    }
}
