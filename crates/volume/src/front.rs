//! A mounted volume: answers the kernel's requests from the tree of names and the store of files.

mod convert;
mod handles;
mod list;
mod serve;

use crate::backing::Backing;
use crate::backing::drops::Witness;
use crate::error::{Result, VolumeError};
use crate::fuse::{Answer, Time};
use crate::mount::Kernel;
use crate::store::Store;
use crate::tree::{Attr, Kind, Listing, Owner, SetAttr, Tree};
use convert::{answer, timespec};
use handles::Handles;
use std::sync::{Arc, Mutex, PoisonError};

/// A volume as a file system.
pub struct Front {
    tree: Arc<Tree>,
    store: Arc<Store>,
    files: Handles<Open>,
    folders: Handles<OpenFolder>,
    read_only: bool,
    kernel: Kernel,
    ended: Ended,
}

/// A file that a program has opened.
struct Open {
    backing: Arc<Backing>,
    witness: Witness,
    /// Whether it was opened for writing.
    writes: bool,
}

/// A folder that a program has opened: its list as of the last read from the beginning.
type OpenFolder = Mutex<Option<Arc<Listing>>>;

/// How a mount has ended; `None` until then.
pub type Ended = Arc<Mutex<Option<Result<()>>>>;

impl Front {
    /// Serves this tree and this store to the kernel. The result of closing the store goes to `ended`.
    #[must_use]
    pub fn new(tree: Arc<Tree>, store: Arc<Store>, read_only: bool, kernel: Kernel, ended: Ended) -> Self {
        tree.stop_with(store.broken());
        if store.has_versions() {
            tree.tell_removals(store.clone());
        }
        Self { tree, store, files: Handles::default(), folders: Handles::default(), read_only, kernel, ended }
    }

    /// Makes a file.
    fn make_file(&self, by: Owner, parent: u64, name: &[u8], mode: u32) -> Result<(Attr, Arc<Backing>)> {
        let mut made = None;
        let make = |file| {
            let backing = self.store.create(file)?;
            made = Some(backing.id());
            Ok(backing)
        };
        let created = self.tree.create(parent, name, mode & 0o7777, by, make);
        if let (Err(_), Some(id)) = (&created, made) {
            self.store.not_made(id);
        }
        created
    }

    /// The attributes, with the changes that are only in memory.
    fn now(&self, mut attr: Attr) -> Attr {
        if attr.kind == Kind::File
            && let Some(backing) = self.store.get(inode(attr.number))
        {
            attr.size = backing.len();
            if let Ok(times) = backing.times() {
                attr.mtime = (times.modified.tv_sec, times.modified.tv_nsec as u32);
            }
        }
        attr
    }

    /// The answer that has these attributes.
    fn answer(&self, attr: Result<Attr>) -> Answer<Attr> {
        answer(attr).map(|attr| self.now(attr))
    }

    /// The stored file of a node. Opens it if it is not open.
    fn backing(&self, number: u64) -> Result<Arc<Backing>> {
        if let Some(backing) = self.store.get(inode(number)) {
            return Ok(backing);
        }
        let file = match self.tree.open_file(number, !self.read_only) {
            // A user who may read the file may not be allowed to write it.
            Err(VolumeError::Refused(
                rustix::io::Errno::ACCESS | rustix::io::Errno::PERM | rustix::io::Errno::ROFS,
            )) => self.tree.open_file(number, false)?,
            opened => opened?,
        };
        self.store.open_file(file)
    }

    /// The stored file of a node, opened so that its content can be changed.
    fn backing_to_write(&self, number: u64) -> Result<Arc<Backing>> {
        let backing = self.backing(number)?;
        if backing.can_write() {
            return Ok(backing);
        }
        // It was opened when its permissions forbade writing. Even if they allow it by now, it has to be closed first.
        let refused = self.tree.open_file(number, true).err();
        Err(refused.unwrap_or(VolumeError::Refused(rustix::io::Errno::ACCESS)))
    }

    fn set_size(&self, number: u64, size: u64, handle: Option<u64>) -> Result<()> {
        if self.read_only {
            return Err(VolumeError::Refused(rustix::io::Errno::ROFS));
        }
        match handle.and_then(|handle| self.files.get(handle)) {
            Some(open) => open.backing.set_len(size),
            None => {
                let backing = self.backing_to_write(number)?;
                backing.set_len(size).and_then(|()| backing.settle())
            }
        }
    }

    /// Clears set-user-ID and set-group-ID before a user who may not keep them changes the content. The kernel leaves
    /// this to the file system, so it is then made to forget the attributes.
    fn take_set_ids(&self, by: Owner, number: u64) -> Result<()> {
        if self.tree.take_set_ids(number, by.gid)? {
            self.kernel.forget_attributes(number);
        }
        Ok(())
    }

    /// Calls [`Self::take_set_ids`] for requests where the kernel does not say who may keep these bits, unless the
    /// superuser makes them.
    fn take_set_ids_of_users(&self, by: Owner, number: u64) -> Result<()> {
        if by.uid == 0 { Ok(()) } else { self.take_set_ids(by, number) }
    }

    /// Sets the modification time of an open file. Returns the times that are still to be set.
    fn set_times(&self, number: u64, atime: Option<Time>, mtime: Option<Time>) -> Result<SetAttr> {
        let (atime, mut mtime) = (atime.map(timespec), mtime.map(timespec));
        if let (Some(modified), Some(backing)) = (mtime, self.store.get(inode(number))) {
            backing.set_mtime(modified)?;
            mtime = None;
        }
        let times = SetAttr::times(
            atime.map(|time| (time.tv_sec, time.tv_nsec as u32)),
            mtime.map(|time| (time.tv_sec, time.tv_nsec as u32)),
        );
        Ok(SetAttr { times: (atime.is_some() || mtime.is_some()).then_some(times), ..SetAttr::default() })
    }

    /// The id that binds the extended attributes of a file.
    fn id(&self, number: u64) -> Result<[u8; 16]> {
        Ok(self.backing(number)?.id())
    }

    fn open_handle(&self, backing: Arc<Backing>, writes: bool) -> u64 {
        self.files.add(Arc::new(Open { witness: backing.witness(), backing, writes }))
    }

    /// The list of an open folder. A read from the beginning makes a new list.
    fn listing(&self, number: u64, handle: u64, offset: u64) -> Result<Arc<Listing>> {
        let open = self.folders.get(handle).ok_or(VolumeError::Refused(rustix::io::Errno::BADF))?;
        let mut listing = open.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listing {
            Some(listing) if offset > 0 => Ok(listing.clone()),
            _ => Ok(listing.insert(self.tree.list(number)?).clone()),
        }
    }

    /// A file that a program has opened.
    fn opened(&self, handle: u64) -> Answer<Arc<Open>> {
        self.files.get(handle).ok_or(rustix::io::Errno::BADF)
    }

    /// Records that the metadata of a file has changed. The next sync of its content also makes sure that this is on
    /// the disk.
    fn changed(&self, number: u64) {
        if let Some(backing) = self.store.get(inode(number)) {
            backing.mark_named();
        }
    }
}

/// The inode for the number of a node.
fn inode(number: u64) -> u64 {
    if number == u64::MAX { 1 } else { number }
}
