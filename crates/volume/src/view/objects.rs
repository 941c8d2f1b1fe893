//! A read-only plain view of what `protect` or `mirror` made in an object store: a folder of objects, or a single one.
//!
//! If the folder has a manifest, what that lists is what is seen, and nothing is asked of the store before a file is opened.
//! A file whose object is not the listed one gives an error. Without a manifest, the objects are seen that the store listed
//! when it was mounted, and a file's length takes a request.
//!
//! A store may do anything but give wrong data. It gets names from the manifest, or those that it has listed itself.

mod serve;
mod source;
mod tree;

use super::files::{Files, OpenFile, Stored, read_header};
use super::listed::Listed;
use super::probe::is_of_keys;
use super::report::Report;
use super::{Probe, ViewOptions};
use crate::mount::Kernel;
use crate::tree::{Attr, Kind};
use phalanx_core::tree::LastChunk;
use phalanx_core::{Error, KeySource, Opener, ProtectedFile, Reader, Source};
use phalanx_host::file::{InputObject, ListedObject, ObjectFolder, Url, stores};
use phalanx_host::lock::lock;
use phalanx_host::mirror::check::Wrong;
use phalanx_host::mirror::listing::{Listing, NodeId};
use rustix::io::Errno;
use source::ObjectSource;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How many files are tried before the mount, if there is no manifest that the keys open.
const TRIED: usize = 16;

/// What an [`ObjectView`] shows.
pub enum Shown {
    /// A folder of objects, as [`ViewOptions::manifest`] lists it. It is the one in which the manifest lies.
    Folder(Arc<dyn ObjectFolder>),
    /// A folder of objects, as the store lists it.
    Listed(Arc<dyn ObjectFolder>, Vec<ListedObject>),
    /// A single object.
    Object(Url),
}

/// Where the objects are.
enum Place {
    Folder(Arc<dyn ObjectFolder>),
    Object(Url),
}

/// What identifies an open file: its number and the version of its object.
type Opened = (u32, String);

/// What is known of a file.
#[derive(Clone, Default)]
struct Known {
    /// The length of its plaintext.
    len: u64,
    /// The version of its object when it was opened last; `None` if it was only looked at.
    version: Option<String>,
}

/// A read-only plain view of objects: see the module. It is a [`Filesystem`](crate::fuse::Filesystem) for
/// [`Session::mount`](crate::mount::Session::mount).
pub struct ObjectView<K: KeySource> {
    path: PathBuf,
    place: Place,
    listed: Listed,
    /// The folder that is shown.
    top: NodeId,
    /// Whether a manifest lists it, and files are compared with it.
    has_manifest: bool,
    files: Files<K, Opened>,
    known: Mutex<HashMap<NodeId, Known>>,
    handles: Mutex<HashMap<u64, Arc<OpenFile<Opened>>>>,
    next_handle: AtomicU64,
    /// Whose all files are: the user's who mounts.
    owner: (u32, u32),
    report: Report,
    kernel: Kernel,
}

impl<K: KeySource + Send + Sync + 'static> ObjectView<K> {
    /// A view of objects. `path` is the URL of the object or of the folder in `shown`, for messages. Nothing is asked of the store.
    ///
    /// # Errors
    /// If a folder has no manifest in the options, or a single object has no name.
    pub fn new(path: &Path, shown: Shown, opener: Opener<K>, options: ViewOptions) -> io::Result<Self> {
        let ViewOptions { memory, read_ahead, roster, manifest, top, log, opened, kernel } = options;
        let report = Report::new(path, log);
        let has_manifest = matches!(shown, Shown::Folder(_));
        let (place, listing) = match shown {
            Shown::Folder(folder) => (Place::Folder(folder), manifest.ok_or(io::Error::other("there is no manifest"))?),
            Shown::Listed(folder, objects) => {
                let hidden = |name: &str, why: &str| report.tell(&format!("{}/{name}: {why}", path.display()));
                (Place::Folder(folder), tree::of_objects(objects, hidden))
            }
            Shown::Object(url) => {
                let name = url.name().ok_or(io::Error::other("it names no object"))?;
                let listing = tree::of_one(name);
                (Place::Object(url), listing)
            }
        };
        let top = if has_manifest { top } else { NodeId::ROOT };
        Ok(Self {
            path: path.to_owned(),
            place,
            listed: Listed::new(listing, top),
            top,
            has_manifest,
            files: Files::new(opener, roster, memory, read_ahead, opened),
            known: Mutex::default(),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
            report,
            kernel,
        })
    }

    fn listing(&self) -> &Listing {
        self.listed.listing()
    }

    /// Tries the keys on the first files, unless they have opened the manifest. This asks for a password if one is needed.
    #[must_use]
    pub fn probe(&self) -> Probe {
        if self.has_manifest {
            return Probe::Opens;
        }
        let files = || self.listing().all().filter(|id| self.listing().file(*id).is_some());
        let mut first = None;
        for id in files().take(TRIED) {
            match self.try_keys(id) {
                Ok(()) => return Probe::Opens,
                Err(e) if is_of_keys(&e) || matches!(self.place, Place::Object(_)) => {
                    first.get_or_insert((self.object_path(id), e));
                }
                // What is damaged is reported when it is opened.
                Err(_) => {}
            }
        }
        match first {
            Some((path, error)) => Probe::Locked(path, error),
            None if files().next().is_none() => Probe::Empty,
            None => Probe::Unknown,
        }
    }

    /// Tries the keys on a file. Of a single one the end is read too, which decides its length.
    fn try_keys(&self, id: NodeId) -> phalanx_core::Result<()> {
        let (object, opener) = (self.object(id).map_err(Error::Read)?, self.files.opener());
        match self.place {
            Place::Folder(_) => ProtectedFile::open(Source::ranged(&*object), opener).map(drop),
            Place::Object(_) => Reader::open(object.adaptive(), opener).map(drop),
        }
    }

    /// The path of something for messages: the URL of its object.
    fn object_path(&self, id: NodeId) -> PathBuf {
        match &self.place {
            Place::Folder(_) => self.path.join(self.listing().stored_path(id)),
            Place::Object(_) => self.path.clone(),
        }
    }

    /// Opens the object of a file, in the version that it has now.
    fn object(&self, id: NodeId) -> io::Result<Arc<dyn InputObject>> {
        match &self.place {
            Place::Folder(folder) => {
                let name = self.listing().stored_path(id).into_os_string().into_string();
                folder.open(&name.map_err(|_| io::Error::other("names of objects are UTF-8, and this one is not"))?)
            }
            Place::Object(url) => stores().map_err(io::Error::other)?.open(url),
        }
    }

    /// Opens the object of a file for a program. The log says why it cannot be opened.
    fn object_or_log(&self, id: NodeId) -> io::Result<Arc<dyn InputObject>> {
        self.object(id).map_err(|e| {
            let path = self.object_path(id);
            match e.kind() {
                io::ErrorKind::NotFound if self.has_manifest => self.report.wrong(&path, &Wrong::Missing),
                // It was deleted since it was listed.
                io::ErrorKind::NotFound => Errno::NOENT.into(),
                _ => self.report.failed(&path, &Error::Read(e)),
            }
        })
    }

    /// The length of a file's plaintext. It is authentic if a manifest lists it, or if the file has been opened. It is 0 if
    /// the object cannot be a protected file; opening it reports why.
    fn len(&self, id: NodeId) -> io::Result<u64> {
        if let Some(file) = self.listing().file(id).filter(|_| self.has_manifest) {
            return Ok(file.len);
        }
        if let Some(known) = lock(&self.known).get(&id) {
            return Ok(known.len);
        }
        let object = self.object_or_log(id)?;
        let len = match read_header(&*object) {
            Ok(header) => header.layout_for_file(object.size()?).map_or(0, |layout| layout.plaintext_len()),
            Err(e @ Error::Read(_)) => return Err(self.report.failed(&self.object_path(id), &e)),
            Err(_) => 0,
        };
        Ok(lock(&self.known).entry(id).or_insert(Known { len, version: None }).len)
    }

    fn attributes(&self, id: NodeId) -> io::Result<Attr> {
        let listing = self.listing();
        let kind = self.kind(id);
        let (may, size) = match kind {
            Kind::File => (0o555, self.len(id)?),
            Kind::Link => (0o777, listing.target(id).map_or(0, |target| target.len() as u64)),
            _ => (0o7777, 0),
        };
        let modified = listing.modified(id);
        let modified = (modified.seconds, modified.nanoseconds);
        Ok(Attr {
            number: self.ino_of(id),
            size,
            blocks: size.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: modified,
            kind,
            mode: u32::from(listing.mode(id)) & may,
            links: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            device: 0,
            block_size: 4096,
        })
    }

    /// Opens a file and authenticates it. Also returns whether what the kernel has cached of it is still right.
    fn open_file(&self, id: NodeId) -> io::Result<(Arc<OpenFile<Opened>>, bool)> {
        if self.listing().file(id).is_none() {
            return Err(Errno::ISDIR.into());
        }
        let object = self.object_or_log(id)?;
        let (path, version) = (self.object_path(id), object.version());
        let source: Stored = Arc::new(ObjectSource::new(object.adaptive()));
        let opened = self.files.open(source.clone(), path.clone(), (id.number(), version.clone()));
        let checked = match &opened {
            Ok(open) => self.check(id, open.end()),
            Err((_, e)) => self.check_unopened(id, &source, e),
        };
        let open = match (opened, checked) {
            (Ok(open), Ok(())) => open,
            (Err((_, e)), Ok(())) => return Err(self.report.failed(&path, &e)),
            (opened, Err(wrong)) => {
                opened.into_iter().for_each(|open| self.files.close(open));
                return Err(self.report.wrong(&path, &wrong));
            }
        };
        let now = Known { len: open.len(), version: Some(version) };
        let before = lock(&self.known).insert(id, now.clone());
        if before.as_ref().is_some_and(|before| before.len != now.len) {
            self.kernel.forget_attributes(self.ino_of(id));
        }
        Ok((open, before.is_some_and(|before| before.version == now.version)))
    }

    /// Checks that an object with this last chunk and length is the one that the manifest lists.
    fn check(&self, id: NodeId, found: (LastChunk, u64)) -> Result<(), Wrong> {
        match self.listing().file(id).filter(|_| self.has_manifest) {
            Some(listed) if found != (listed.contents.last, listed.len) => Err(Wrong::Unlisted),
            _ => Ok(()),
        }
    }

    /// Checks whether an object that cannot be opened is the one that the manifest lists, unless the failure says more.
    fn check_unopened(&self, id: NodeId, source: &Stored, failure: &Error) -> Result<(), Wrong> {
        match failure {
            Error::Read(_) | Error::Memory(_) => Ok(()),
            _ => LastChunk::read(source).map_or(Ok(()), |found| self.check(id, found)),
        }
    }

    /// Opens a file for a program. Returns its handle, and whether what the kernel has cached of it is still right.
    fn open_handle(&self, id: NodeId) -> io::Result<(u64, bool)> {
        let (file, is_same) = self.open_file(id)?;
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.handles).insert(handle, file);
        Ok((handle, is_same))
    }

    fn close_handle(&self, handle: u64) {
        let gone = lock(&self.handles).remove(&handle);
        gone.into_iter().for_each(|file| self.files.close(file));
    }

    fn read_at(&self, handle: u64, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let file = lock(&self.handles).get(&handle).cloned().ok_or(Errno::BADF)?;
        let left = usize::try_from(file.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(out.len());
        self.files.read_at(&file, &mut out[..len], offset).map_err(|e| self.report.failed(file.path(), &e))
    }

    /// The number by which the kernel knows an entry. That of the folder that is shown is 1. What is in it comes after it.
    fn ino_of(&self, id: NodeId) -> u64 {
        u64::from(id.number() - self.top.number()) + 1
    }

    /// The entry with a number that the kernel knows.
    fn node(&self, ino: u64) -> io::Result<NodeId> {
        let number = ino.checked_sub(1).and_then(|number| u32::try_from(number).ok());
        let number = number.and_then(|number| number.checked_add(self.top.number()));
        number.and_then(|number| self.listing().numbered(number)).ok_or(Errno::STALE.into())
    }

    /// The kind of an entry.
    fn kind(&self, id: NodeId) -> Kind {
        match (self.listing().is_folder(id), self.listing().file(id)) {
            (true, _) => Kind::Folder,
            (false, Some(_)) => Kind::File,
            (false, None) => Kind::Link,
        }
    }
}
