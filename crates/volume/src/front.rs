//! A mounted volume: answers the kernel's requests from the tree of names and the store of files.

mod convert;
mod handles;
mod serve;

use crate::backing::Backing;
use crate::backing::drops::Witness;
use crate::error::{Result, VolumeError};
use crate::mount::Kernel;
use crate::store::Store;
use crate::tree::{Attr, Kind, Listing, SetAttr, Tree};
use convert::{TTL, errno, file_attr, time_or_now};
use fuser::{FileHandle, Generation, INodeNo, ReplyEmpty, ReplyEntry, Request, TimeOrNow};
use handles::Handles;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

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

/// The two names that every folder has in addition to its entries.
const DOTS: [&str; 2] = [".", ".."];

/// How a mount has ended; `None` until then.
pub type Ended = Arc<Mutex<Option<Result<()>>>>;

impl Front {
    /// Serves this tree and this store to the kernel. The result of closing the store goes to `ended`.
    #[must_use]
    pub fn new(tree: Arc<Tree>, store: Arc<Store>, read_only: bool, kernel: Kernel, ended: Ended) -> Self {
        Self { tree, store, files: Handles::default(), folders: Handles::default(), read_only, kernel, ended }
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

    fn entry(&self, attr: Result<Attr>, reply: ReplyEntry) {
        match attr {
            Ok(attr) => reply.entry(&TTL, &file_attr(&self.now(attr)), Generation(0)),
            Err(error) => reply.error(errno(&error)),
        }
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

    fn set_size(&self, number: u64, size: u64, handle: Option<FileHandle>) -> Result<()> {
        if self.read_only {
            return Err(VolumeError::Refused(rustix::io::Errno::ROFS));
        }
        match handle.and_then(|handle| self.files.get(handle.0)) {
            Some(open) => open.backing.set_len(size),
            None => {
                let backing = self.backing_to_write(number)?;
                backing.set_len(size).and_then(|()| backing.settle())
            }
        }
    }

    /// Clears set-user-ID and set-group-ID before a user who may not keep them changes the content. The kernel leaves
    /// this to the file system, so it is then made to forget the attributes.
    fn take_set_ids(&self, request: &Request, number: INodeNo) -> Result<()> {
        if self.tree.take_set_ids(number.0, request.gid())? {
            self.kernel.forget_attributes(number.0);
        }
        Ok(())
    }

    /// Calls [`Self::take_set_ids`] for requests where the kernel does not say who may keep these bits, unless the
    /// superuser makes them.
    fn take_set_ids_of_users(&self, request: &Request, number: INodeNo) -> Result<()> {
        if request.uid() == 0 { Ok(()) } else { self.take_set_ids(request, number) }
    }

    /// Sets the modification time of an open file. Returns the times that are still to be set.
    fn set_times(&self, number: u64, atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>) -> Result<SetAttr> {
        let (atime, mut mtime) = (atime.map(time_or_now), mtime.map(time_or_now));
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

    fn open_handle(&self, backing: Arc<Backing>, writes: bool) -> FileHandle {
        FileHandle(self.files.add(Arc::new(Open { witness: backing.witness(), backing, writes })))
    }

    /// The list of an open folder. A read from the beginning makes a new list.
    fn listing(&self, number: u64, handle: FileHandle, offset: u64) -> Result<Arc<Listing>> {
        let open = self.folders.get(handle.0).ok_or(VolumeError::Refused(rustix::io::Errno::BADF))?;
        let mut listing = open.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listing {
            Some(listing) if offset > 0 => Ok(listing.clone()),
            _ => Ok(listing.insert(self.tree.list(number)?).clone()),
        }
    }

    /// Records that the metadata of a file has changed. The next sync of its content also makes sure that this is on
    /// the disk.
    fn changed(&self, number: u64) {
        if let Some(backing) = self.store.get(inode(number)) {
            backing.mark_named();
        }
    }
}

thread_local! {
    /// The data of the last read. Allocating memory for each read would cost more than decrypting.
    static BUFFER: RefCell<Zeroizing<Vec<u8>>> = RefCell::default();
}

/// The inode for the number of a node.
fn inode(number: u64) -> u64 {
    if number == u64::MAX { 1 } else { number }
}

fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}
