//! A read-only plain view of a tree or file that `protect` made.
//!
//! Folders and symbolic links are shown as they are, and every regular file `NAME.phx` as `NAME`. Nothing else is
//! shown. A file is authenticated when it is opened, and each chunk before any of its bytes is given out.
//!
//! If the tree is a mirror whose manifest is known, what does not belong to it gives an error when it is opened: a file with other
//! content than is listed, or in another place, and a link that leads elsewhere. What is missing gives one when it is looked up.
//!
//! An attacker may have access to the tree. Every folder and file is opened within its opened parent, links are never
//! followed, and an entry that was found is used only while it has the same device and inode.

mod attributes;
mod files;
mod folders;
mod listed;
mod nodes;
mod objects;
mod probe;
mod report;

use self::attributes::{attr, plain_len};
use self::files::{Files, OpenFile};
use self::folders::{Listing, plain_name, stored_name};
use self::listed::Listed;
use self::nodes::{FolderEntry, Id, Kind, Nodes, Plain, Stamp};
pub use self::objects::{ObjectView, Shown};
pub use self::probe::Probe;
use self::report::Report;
use crate::fuse::{Answer, Caching, Entries, Filesystem, Opened, Space};
use crate::mount::Kernel;
use crate::tree::{Attr, Kind as Type};
use phalanx_core::tree::LastChunk;
use phalanx_core::{KeySource, OpenedBy, Opener, Roster};
use phalanx_host::file::is_temporary;
use phalanx_host::lock::lock;
use phalanx_host::mirror::check::Wrong;
use phalanx_host::mirror::listing::{Listing as Manifest, NodeId};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The flags of every open. A FIFO must not block it.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

type Tell = Box<dyn Fn(&str) + Send + Sync>;
type TellOpened = Box<dyn Fn(&Path, &OpenedBy) + Send + Sync>;

/// How a [`View`] works.
pub struct ViewOptions {
    /// How many bytes of memory all open files may take together for chunks.
    pub memory: usize,
    /// How many bytes are opened ahead of sequential reads; `None` for a suitable number, 0 for none.
    pub read_ahead: Option<usize>,
    /// Which engines open chunks.
    pub roster: Arc<Roster>,
    /// What the manifest lists, if the tree is a mirror with one, or a folder of it.
    pub manifest: Option<Manifest>,
    /// The tree in what the manifest lists.
    pub top: NodeId,
    /// Gets a line about each file that cannot be shown, opened or read. It names the file.
    pub log: Tell,
    /// Called with the path of each file that is opened, and what opened it.
    pub opened: TellOpened,
    /// The way to the kernel that asks.
    pub kernel: Kernel,
}

impl ViewOptions {
    /// 128 MiB of memory, and nothing is reported.
    #[must_use]
    pub fn new(roster: Arc<Roster>) -> Self {
        Self {
            memory: 128 << 20,
            read_ahead: None,
            roster,
            manifest: None,
            top: NodeId::ROOT,
            log: Box::new(|_| ()),
            opened: Box::new(|_, _| ()),
            kernel: Kernel::default(),
        }
    }
}

/// The tree that is shown.
struct Tree {
    /// Its path, for messages.
    path: PathBuf,
    /// The folder, or the folder of the single file.
    folder: Arc<OwnedFd>,
    /// The stored name of the single file, and the name under which it is shown.
    single: Option<(OsString, OsString)>,
}

/// A read-only plain view: see the module. It is a [`Filesystem`] for [`Session::mount`](crate::mount::Session::mount).
pub struct View<K: KeySource> {
    tree: Tree,
    nodes: Mutex<Nodes>,
    files: Files<K, (u64, Stamp)>,
    listed: Option<Listed>,
    handles: Mutex<HashMap<u64, Handle>>,
    next_handle: AtomicU64,
    report: Report,
}

/// What a program has opened.
#[derive(Clone)]
enum Handle {
    Folder(Arc<Mutex<Listing>>),
    File(Arc<OpenFile<(u64, Stamp)>>),
}

impl<K: KeySource + Send + Sync + 'static> View<K> {
    /// Opens a tree, or a single protected file.
    ///
    /// # Errors
    /// If it cannot be opened, or is neither a folder nor a regular file.
    pub fn open(path: &Path, opener: Opener<K>, options: ViewOptions) -> io::Result<Self> {
        // The user named it, so it may be a link.
        let whole = path.canonicalize()?;
        let is_folder = whole.metadata()?.is_dir();
        let (folder, single) = match (is_folder, whole.parent(), whole.file_name()) {
            (false, Some(parent), Some(name)) => {
                let shown = plain_name(name).unwrap_or_else(|| name.to_owned());
                (parent, Some((name.to_owned(), shown)))
            }
            _ => (&*whole, None),
        };
        let folder = Arc::new(sys::open(folder, FOLDER, Mode::empty())?);
        if let Some((name, _)) = &single
            && !is_regular(&sys::statat(&*folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
        {
            return Err(io::Error::other("neither a folder nor a file"));
        }
        let root = Id::of(&sys::fstat(&*folder)?);
        let ViewOptions { memory, read_ahead, roster, manifest, top, log, opened, kernel: _ } = options;
        Ok(Self {
            tree: Tree { path: path.to_owned(), folder: folder.clone(), single },
            nodes: Mutex::new(Nodes::new(root, folder)),
            files: Files::new(opener, roster, memory, read_ahead, opened),
            listed: manifest.map(|manifest| Listed::new(manifest, top)),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            report: Report::new(path, log),
        })
    }

    /// The opener of the files.
    #[must_use]
    pub fn opener(&self) -> &Opener<K> {
        self.files.opener()
    }

    /// Finds an entry by the name under which it is shown, without counting it.
    fn find(&self, parent: u64, name: &OsStr) -> io::Result<FolderEntry> {
        if matches!(name.as_bytes(), b"." | b"..") {
            return Err(Errno::NOENT.into());
        }
        let folder = self.folder(parent)?;
        if parent == nodes::ROOT
            && let Some((stored, shown)) = &self.tree.single
        {
            let stat = sys::statat(&*folder, stored, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_it = shown == name && is_regular(&stat);
            return if is_it { Ok(self.file(&folder, stored, stat)) } else { Err(Errno::NOENT.into()) };
        }
        match sys::statat(&*folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match sys::FileType::from_raw_mode(stat.st_mode) {
                sys::FileType::Directory => return Ok(FolderEntry::new(name, Kind::Folder, stat)),
                sys::FileType::Symlink if !is_temporary(name) => return Ok(FolderEntry::new(name, Kind::Link, stat)),
                _ => {}
            },
            Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        let stored = stored_name(name);
        match sys::statat(&*folder, &stored, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_regular(&stat) && !is_temporary(&stored) => Ok(self.file(&folder, &stored, stat)),
            // Such a name is too long for a protected file.
            Ok(_) | Err(Errno::NAMETOOLONG | Errno::NOENT) => Err(self.not_found(parent, name)),
            Err(e) => Err(e.into()),
        }
    }

    fn file(&self, folder: &OwnedFd, stored: &OsStr, stat: Stat) -> FolderEntry {
        let stamp = Stamp::of(&stat);
        let known = lock(&self.nodes).plain(Id::of(&stat), stamp);
        let plain = known.unwrap_or_else(|| Plain { stamp, len: plain_len(folder, stored, &stat) });
        FolderEntry { plain: Some(plain), ..FolderEntry::new(stored, Kind::File, stat) }
    }

    /// Finds a node again, in the place where it was found last.
    fn again(&self, ino: u64) -> io::Result<FolderEntry> {
        let (parent, stored, id, kind) = lock(&self.nodes).place(ino)?;
        let folder = self.folder(parent)?;
        let stat = sys::statat(&*folder, &stored, AtFlags::SYMLINK_NOFOLLOW)?;
        if Id::of(&stat) != id || Kind::of(&stat) != Some(kind) {
            return Err(Errno::STALE.into());
        }
        Ok(if kind == Kind::File { self.file(&folder, &stored, stat) } else { FolderEntry::new(&stored, kind, stat) })
    }

    /// A folder, opened for finding what is in it.
    fn folder(&self, ino: u64) -> io::Result<Arc<OwnedFd>> {
        // From the nearest folder that is open down to this one.
        let (mut folder, steps) = lock(&self.nodes).way_to(ino)?;
        for (ino, name, id) in steps {
            let opened = Arc::new(sys::openat(&*folder, &name, FOLDER, Mode::empty())?);
            if Id::of(&sys::fstat(&*opened)?) != id {
                return Err(Errno::STALE.into());
            }
            let closed = lock(&self.nodes).keep_open(ino, opened.clone());
            drop(closed);
            folder = opened;
        }
        Ok(folder)
    }

    fn attributes(&self, ino: u64) -> io::Result<Attr> {
        if ino == nodes::ROOT {
            let stat = match &self.tree.single {
                Some((stored, _)) => sys::statat(&*self.tree.folder, stored, AtFlags::SYMLINK_NOFOLLOW)?,
                None => sys::fstat(&*self.tree.folder)?,
            };
            let mut attr = attr(ino, Kind::Folder, &stat, None);
            if self.tree.single.is_some() {
                // Users who may read the file may look into the folder that is made up for it.
                let may_read = stat.st_mode & 0o444;
                (attr.mode, attr.links, attr.size) = (may_read | may_read >> 2, 2, 0);
            }
            return Ok(attr);
        }
        let found = self.again(ino)?;
        if let Some(plain) = found.plain {
            lock(&self.nodes).learn(ino, plain);
        }
        Ok(found.attr(ino))
    }

    fn open_folder(&self, ino: u64) -> io::Result<Handle> {
        if ino == nodes::ROOT && self.tree.single.is_some() {
            return Ok(Handle::Folder(Arc::new(Mutex::new(Listing::made_up()))));
        }
        Listing::open(&*self.folder(ino)?).map(|listing| Handle::Folder(Arc::new(Mutex::new(listing))))
    }

    /// Opens a file and authenticates it. Also returns whether what the kernel has cached of it is still right.
    fn open_file(&self, ino: u64) -> io::Result<(Handle, bool)> {
        let (parent, stored, id, kind) = lock(&self.nodes).place(ino)?;
        if kind != Kind::File {
            return Err(Errno::ISDIR.into());
        }
        let folder = self.folder(parent)?;
        let file = File::from(sys::openat(&*folder, &stored, FILE, Mode::empty())?);
        let stat = sys::fstat(&file)?;
        if Id::of(&stat) != id || !is_regular(&stat) {
            return Err(Errno::STALE.into());
        }
        let (path, stamp) = (self.path(parent, &stored), Stamp::of(&stat));
        if self.listed.is_some() {
            // What does not belong there is not even opened.
            let found = LastChunk::read(&file).map_err(|e| self.report.failed(&path, &e))?;
            self.check_file(parent, &stored, found, &path)?;
        }
        let open =
            self.files.open(Arc::new(file), path, (ino, stamp)).map_err(|(path, e)| self.report.failed(&path, &e))?;
        // It may have been overwritten meanwhile. What is read from it is what was authenticated.
        if let Err(e) = self.check_file(parent, &stored, open.end(), open.path()) {
            self.files.close(open);
            return Err(e);
        }
        let is_same = lock(&self.nodes).opened(ino, stamp);
        Ok((Handle::File(open), is_same))
    }

    /// Checks that a file with this last chunk and length is the one that is listed in its place.
    fn check_file(&self, parent: u64, stored: &OsStr, (last, len): (LastChunk, u64), path: &Path) -> io::Result<()> {
        let (Some(listed), Some(name)) = (&self.listed, plain_name(stored)) else { return Ok(()) };
        let folder = lock(&self.nodes).names(parent);
        listed.check_file(&folder, &name, last, len).map_err(|wrong| self.report.wrong(path, &wrong))
    }

    /// The target of a link.
    fn target(&self, ino: u64) -> io::Result<Vec<u8>> {
        let (parent, stored, ..) = lock(&self.nodes).place(ino)?;
        let target = sys::readlinkat(&*self.folder(parent)?, &stored, Vec::new())?.into_bytes();
        if let Some(listed) = &self.listed {
            let folder = lock(&self.nodes).names(parent);
            let checked = listed.check_link(&folder, &stored, &target);
            checked.map_err(|wrong| self.report.wrong(&self.path(parent, &stored), &wrong))?;
        }
        Ok(target)
    }

    /// The error for an entry that is not found: another one if the manifest lists it.
    fn not_found(&self, parent: u64, name: &OsStr) -> io::Error {
        let folder = || lock(&self.nodes).names(parent);
        match &self.listed {
            Some(listed) if listed.has(&folder(), name) => self.report.wrong(&self.path(parent, name), &Wrong::Missing),
            _ => Errno::NOENT.into(),
        }
    }

    /// Tells which listed entries of a folder are missing.
    fn tell_missing(&self, ino: u64) -> io::Result<()> {
        let Some(listed) = &self.listed else { return Ok(()) };
        let folder = self.folder(ino)?;
        let names = lock(&self.nodes).names(ino);
        for stored in listed.stored_names(&names) {
            if sys::statat(&*folder, &stored, AtFlags::SYMLINK_NOFOLLOW).is_err_and(|e| e == Errno::NOENT) {
                self.report.wrong(&self.path(ino, &stored), &Wrong::Missing);
            }
        }
        Ok(())
    }

    /// The path of something in the tree, for messages.
    fn path(&self, parent: u64, stored: &OsStr) -> PathBuf {
        if self.tree.single.is_some() {
            return self.tree.path.clone();
        }
        let mut path = self.tree.path.clone();
        path.extend(lock(&self.nodes).names(parent));
        path.push(stored);
        path
    }

    fn handle(&self, handle: u64) -> io::Result<Handle> {
        lock(&self.handles).get(&handle).cloned().ok_or(Errno::BADF.into())
    }

    fn keep(&self, handle: Handle) -> u64 {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.handles).insert(number, handle);
        number
    }

    fn release_handle(&self, handle: u64) {
        let gone = lock(&self.handles).remove(&handle);
        if let Some(Handle::File(file)) = gone {
            self.files.close(file);
        }
    }

    fn read_at(&self, handle: u64, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let Handle::File(file) = self.handle(handle)? else { return Err(Errno::ISDIR.into()) };
        let left = usize::try_from(file.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(out.len());
        self.files.read_at(&file, &mut out[..len], offset).map_err(|e| self.report.failed(file.path(), &e))
    }

    fn list(&self, ino: u64, handle: u64, offset: u64, entries: &mut Entries<'_>) -> io::Result<()> {
        let Handle::Folder(listing) = self.handle(handle)? else { return Err(Errno::NOTDIR.into()) };
        let mut listing = lock(&listing);
        if let (Some((_, shown)), nodes::ROOT) = (&self.tree.single, ino) {
            let all = [(&b"."[..], Type::Folder), (b"..", Type::Folder), (shown.as_bytes(), Type::File)];
            for (at, (name, kind)) in (1..).zip(all).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
                // The kernel gets the file's number when it looks it up.
                let number = if kind == Type::Folder { nodes::ROOT } else { u64::MAX };
                if entries.add(number, at, kind, name) {
                    break;
                }
            }
            return Ok(());
        }
        listing.go_to(offset)?;
        while let Some(entry) = listing.peek()? {
            if entry.is_hidden_by_other {
                let path = self.path(ino, &entry.stored);
                self.report
                    .tell(&format!("{}: another entry has the name under which it would be shown", path.display()));
            } else if entries.add(entry.ino, entry.next, entry.kind, entry.name.as_bytes()) {
                return Ok(());
            }
            listing.pass();
        }
        self.tell_missing(ino)
    }
}

/// The answer of a file system that is only read.
fn answer<T>(result: io::Result<T>) -> Answer<T> {
    // `ENOSYS` would make the kernel never send this request again and treat it as done.
    result.map_err(|e| Errno::from_io_error(&e).filter(|errno| *errno != Errno::NOSYS).unwrap_or(Errno::IO))
}

/// Whether a file is opened for reading alone.
fn only_reads(flags: i32) -> bool {
    !OFlags::from_bits_retain(flags.cast_unsigned()).intersects(OFlags::WRONLY | OFlags::RDWR)
}

impl<K: KeySource + Send + Sync + 'static> Filesystem for View<K> {
    fn caching(&self) -> Caching {
        Caching::default()
    }

    fn destroy(&self) {
        lock(&self.handles).clear();
        self.files.clear();
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<Attr> {
        answer(self.find(parent, OsStr::from_bytes(name)).and_then(|found| {
            let ino = lock(&self.nodes).remember(parent, &found)?;
            Ok(found.attr(ino))
        }))
    }

    fn forget(&self, number: u64, times: u64) {
        lock(&self.nodes).forget(number, times);
    }

    fn getattr(&self, number: u64) -> Answer<Attr> {
        answer(self.attributes(number))
    }

    fn readlink(&self, number: u64) -> Answer<Vec<u8>> {
        answer(self.target(number))
    }

    fn open(&self, number: u64, flags: i32) -> Answer<Opened> {
        if !only_reads(flags) {
            return Err(Errno::ROFS);
        }
        answer(self.open_file(number)).map(|(handle, keeps)| Opened { handle: self.keep(handle), keeps })
    }

    fn read(&self, handle: u64, offset: u64, out: &mut [u8]) -> Answer<usize> {
        answer(self.read_at(handle, offset, out))
    }

    fn release(&self, handle: u64) {
        self.release_handle(handle);
    }

    fn opendir(&self, number: u64) -> Answer<Opened> {
        answer(self.open_folder(number)).map(|handle| Opened { handle: self.keep(handle), keeps: false })
    }

    fn readdir(&self, number: u64, handle: u64, offset: u64, entries: &mut Entries<'_>) -> Answer<()> {
        answer(self.list(number, handle, offset, entries))
    }

    fn releasedir(&self, handle: u64) {
        self.release_handle(handle);
    }

    fn statfs(&self) -> Answer<Space> {
        let stat = sys::fstatvfs(&*self.tree.folder)?;
        Ok(Space {
            blocks: stat.f_blocks,
            free: stat.f_bfree,
            available: stat.f_bavail,
            files: stat.f_files,
            free_files: stat.f_ffree,
            block: u32::try_from(stat.f_bsize).unwrap_or(4096),
            longest_name: u32::try_from(stat.f_namemax).unwrap_or(255),
            fragment: u32::try_from(stat.f_frsize).unwrap_or(4096),
        })
    }
}

fn is_regular(stat: &Stat) -> bool {
    sys::FileType::from_raw_mode(stat.st_mode).is_file()
}
