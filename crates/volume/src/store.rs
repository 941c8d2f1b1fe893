//! All stored files of a mount: which are open, how much of them is only in memory, and when it is committed.

use crate::backing::{Backing, Shared};
use crate::error::{Result, VolumeError};
use crate::folder::give_to_owner;
use crate::header;
use crate::journal::{Epoch, JOURNAL, Journal, RESERVED};
use crate::options::StoreOptions;
use crate::recover;
use crate::shared::{Key, is_room};
use crate::tree::{Act, Removal, Removals, Tree, TreeOptions};
use crate::versions::{Generation, Versions};
use phalanx_core::volume::Config;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// All stored files of a mount.
///
/// Dropping it without [`Store::close`] loses what is only in memory.
pub struct Store {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the journal in the root folder of a volume, applies what a killed run left in it, and reserves its space.
    ///
    /// # Errors
    /// [`VolumeError::Unfinished`] if a killed run left something and the mount is for reading only. Otherwise if the
    /// journal cannot be read, applied or made.
    pub fn open(root: &OwnedFd, config: Config, options: StoreOptions) -> Result<Arc<Self>> {
        let any_version = options.read_only && options.any_version;
        let versions =
            if any_version { None } else { Versions::open(root, &config, &*options.disk, options.read_only)? };
        let journal = open_journal(root, &config, &options, versions.as_ref())?;
        let shared = Arc::new(Shared::new(root, config, options, journal, versions)?);
        if shared.versions.as_ref().is_some_and(Versions::needs_batch) {
            // What the journal had is in the files. Without space for the table it stays, until something is written.
            match shared.checkpoint() {
                Ok(()) | Err(VolumeError::Full) => {}
                Err(e) => return Err(e),
            }
        }
        let thread = (!shared.options.read_only).then(|| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let work = AssertUnwindSafe(|| shared.commit_in_background());
                if let Err(panic) = catch_unwind(work) {
                    // Nothing would commit the changes that are left in memory.
                    let why = std::io::Error::other("a thread of the program has failed");
                    shared.break_off(&VolumeError::Io { what: "cannot store changes", error: why });
                    resume_unwind(panic);
                }
            })
        });
        Ok(Arc::new(Self { shared, thread: Mutex::new(thread) }))
    }

    /// Writes a stored file without content into `file`, which is empty and open for reading and writing. The caller
    /// made it under a temporary name, and renames it.
    ///
    /// # Errors
    /// If there is no space, or it cannot be written.
    pub fn create(&self, file: File) -> Result<Arc<Backing>> {
        self.shared.writable()?;
        let key = key(&file)?;
        let (header, keys) = self.shared.config.new_file()?;
        let backing = Backing::create(&self.shared, file, key, header, keys)?;
        self.shared.table().insert(key, Arc::downgrade(&backing));
        Ok(backing)
    }

    /// The `Backing` of a stored file that is open for reading and writing, or for reading only in such a mount. All
    /// who open the same file get the same `Backing`. Its header and its last chunk are authentic.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] if it is not a whole, authentic file of this volume. Otherwise if it cannot be read.
    pub fn open_file(&self, file: File) -> Result<Arc<Backing>> {
        let key = key(&file)?;
        // Only one thread at a time reads a file's header, so that no thread starts from a state that another has
        // changed meanwhile.
        let stripe = &self.shared.opening[key.1 as usize % self.shared.opening.len()];
        let _opening = stripe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(backing) = self.shared.find(key) {
            return Ok(backing);
        }
        let backing = Backing::open(&self.shared, file, key)?;
        self.shared.table().insert(key, Arc::downgrade(&backing));
        Ok(backing)
    }

    /// The `Backing` of an inode that is open or has changes in memory, if there is one.
    #[must_use]
    pub fn get(&self, inode: u64) -> Option<Arc<Backing>> {
        self.shared.find((self.shared.device, inode))
    }

    /// The length of the plaintext of a stored file with this length; `None` if the length is impossible. Nothing is
    /// authenticated.
    #[must_use]
    pub fn plain_len(&self, stored_len: u64) -> Option<u64> {
        Some(header::layout_of(&self.shared.config, stored_len).ok()?.plaintext_len())
    }

    /// The tree of the same volume, which is read-only if the store is. `on_damage` is called with what was altered from
    /// outside, once for each.
    ///
    /// # Errors
    /// Those of [`Tree::open`].
    pub fn tree(self: &Arc<Self>, on_damage: impl Fn(&str) + Send + Sync + 'static) -> Result<Tree> {
        let (shared, store) = (&self.shared, self.clone());
        let options = TreeOptions {
            read_only: shared.options.read_only,
            plain_len: Box::new(move |len| store.plain_len(len)),
            on_damage: Arc::new(on_damage),
        };
        let root = shared.root.try_clone().map_err(|e| VolumeError::io("cannot copy a descriptor", e))?;
        Tree::open(root.into(), &shared.config, options)
    }

    /// The length of a chunk in bytes of plaintext.
    #[must_use]
    pub fn chunk_len(&self) -> usize {
        self.shared.config.chunk_size().bytes()
    }

    /// Is set once the disk has failed. Nothing can be written from then on.
    #[must_use]
    pub fn broken(&self) -> Arc<AtomicBool> {
        self.shared.broken.clone()
    }

    /// Commits everything, syncs it, and trims the journal. This is called when the volume is unmounted; nothing is
    /// written after it.
    ///
    /// # Errors
    /// The first error. Everything else is still committed.
    pub fn close(&self) -> Result<()> {
        self.end_thread();
        let mut result = Ok(());
        if self.shared.options.read_only {
            return result;
        }
        for backing in self.shared.all_dirty() {
            result = result.and(backing.settle());
        }
        let ended = self.shared.close(|| {
            if let Some(versions) = &self.shared.versions {
                versions.end(self.shared.disk());
            }
        });
        result.and(ended)
    }

    /// The state of the volume, if it has a table of versions.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        Some(self.shared.versions.as_ref()?.generation(self.shared.config.keys()))
    }

    /// From now on, remembers which files are opened, for [`Store::missing`].
    pub fn count_files(&self) {
        if let Some(versions) = &self.shared.versions {
            versions.count_files();
        }
    }

    /// How many files the table of versions has that were not opened since [`Store::count_files`].
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.shared.versions.as_ref().map_or(0, Versions::missing)
    }

    /// Makes sure that what the journal says of new and removed files is on the disk, for a user who syncs a folder.
    ///
    /// # Errors
    /// If the system reports that something was not written.
    pub fn sync_records(&self) -> Result<()> {
        self.shared.sync_records()
    }

    /// Records that a new file did not get a name.
    pub(crate) fn not_made(&self, id: [u8; 16]) {
        if let Some(versions) = &self.shared.versions {
            let _epoch = self.shared.epoch.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            versions.remove(id);
        }
    }

    /// Whether a name is a file's last. The number of links is believed only if the volume itself has made some.
    fn is_last_name(&self, id: [u8; 16], by_links: bool) -> bool {
        let version = self.shared.versions.as_ref().and_then(|versions| versions.get(id));
        version.is_some_and(|version| by_links || !version.is_linked())
    }

    /// Whether older states of files are found.
    #[must_use]
    pub fn has_versions(&self) -> bool {
        self.shared.versions.is_some()
    }

    fn end_thread(&self) {
        self.shared.end_thread();
        let handle = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(handle) = handle {
            let _ = handle.join();
        }
    }
}

impl Removals for Store {
    fn identify(&self, inode: u64, open: &dyn Fn() -> Option<File>) -> Option<Removal> {
        let id = match self.get(inode) {
            Some(backing) => backing.id(),
            // One that is not whole has no entry in the table, or keeps it.
            None => self.shared.header(&open()?).ok()?.keys.volume_file_id(),
        };
        Some(Removal { inode, id })
    }

    fn remove(
        &self,
        Removal { inode, id }: Removal,
        links: &dyn Fn() -> u64,
        folder: (u64, &Arc<OwnedFd>),
        is_replaced: bool,
        act: &mut Act<'_>,
    ) -> Result<(), Errno> {
        let is_last = self.is_last_name(id, links() <= 1);
        // The epoch does not end between the record and the removal.
        let _epoch =
            self.shared.removing((self.shared.device, inode), id, is_last, is_replaced).map_err(|e| e.errno())?;
        act()?;
        if self.is_last_name(id, links() == 0) {
            self.shared.removed(id, folder);
        }
        Ok(())
    }

    fn linking(&self, Removal { inode, id }: Removal) -> Result<()> {
        self.shared.linking((self.shared.device, inode), id)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end_thread();
        self.shared.drop_changes();
    }
}

/// Device and inode of a regular file.
fn key(file: &File) -> Result<Key> {
    let stat = fstat(file).map_err(|e| VolumeError::io("cannot look at a stored file", e))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((stat.st_dev, stat.st_ino)),
        _ => Err(VolumeError::Damaged(format!("the stored file with inode {} is no regular file", stat.st_ino))),
    }
}

/// Opens the file of the journal; `None` if there is none.
pub(crate) fn open_journal_file(root: &OwnedFd, how: OFlags) -> Result<Option<File>> {
    let common = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || {
        let file = File::from(openat(root, JOURNAL, common | how, Mode::RUSR | Mode::WUSR)?);
        let stat = fstat(&file)?;
        // A second name may belong to somebody else's file.
        let is_ours = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1;
        if is_ours { Ok(file) } else { Err(Errno::INVAL) }
    };
    match open() {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(VolumeError::io("cannot open the journal", e)),
    }
}

/// Opens the journal. For a mount for writing, applies its content and returns it. A mount for reading only gets
/// `None`, and an error if the journal holds anything.
fn open_journal(
    root: &OwnedFd,
    config: &Config,
    options: &StoreOptions,
    versions: Option<&Versions>,
) -> Result<Option<Journal>> {
    let which = match versions {
        Some(versions) => Epoch::Only(versions.epoch()),
        None if config.features().rollback_protection => Epoch::Unchecked,
        None => Epoch::Any,
    };
    if options.read_only {
        return match open_journal_file(root, OFlags::RDONLY)? {
            Some(file) if !crate::journal::read(&file, config.keys(), which)?.is_empty() => {
                Err(VolumeError::Unfinished)
            }
            _ => Ok(None),
        };
    }
    let file = match open_journal_file(root, OFlags::RDWR)? {
        Some(file) => {
            match versions {
                None => recover::apply(root, &file, config, options)?,
                Some(versions) => {
                    if recover::apply_to(root, &file, config, options, which, Some(versions))? {
                        versions.want_epoch();
                    }
                }
            }
            file
        }
        None => {
            let failed = |e| VolumeError::io("cannot open the journal", e);
            let file = open_journal_file(root, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
            let file = file.ok_or(VolumeError::Refused(Errno::NOENT))?;
            if let Err(e) = give_to_owner(&file, root) {
                let _ = unlinkat(root, JOURNAL, AtFlags::empty());
                return Err(failed(e));
            }
            sync_folder(root).map_err(failed)?;
            file
        }
    };
    // On a disk that is nearly full, or a file system without this call, the journal grows as it is written.
    let is_room = is_room(root);
    if let Some(versions) = versions {
        versions.reserve(&*options.disk, is_room);
    }
    // What was applied just now stays, until the table has it.
    if is_room && !versions.is_some_and(Versions::needs_batch) {
        match options.disk.extend(&file, 0, RESERVED) {
            Ok(()) => options.disk.sync_data(&file).map_err(|e| VolumeError::io("cannot sync the journal", e))?,
            // Some file systems keep the space that they could get.
            Err(_) if fstat(&file).is_ok_and(|stat| stat.st_blocks > 0 || stat.st_size > 0) => {
                options.disk.set_len(&file, 0).map_err(|e| VolumeError::io("cannot shorten the journal", e))?;
            }
            Err(_) => {}
        }
    }
    Journal::new(file).map(Some)
}

fn sync_folder(dir: &OwnedFd) -> rustix::io::Result<()> {
    match rustix::fs::fsync(dir) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}
