//! A mounted volume: what the kernel asks of it, answered by the tree of names and the store of files.

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

/// A file that somebody has opened.
struct Open {
    backing: Arc<Backing>,
    witness: Witness,
    /// Whether it was opened for writing.
    writes: bool,
}

/// A folder that somebody has opened: what was in it when it was last read from its beginning.
type OpenFolder = Mutex<Option<Arc<Listing>>>;

/// What every folder has, beside its entries.
const DOTS: [&str; 2] = [".", ".."];

/// How a mount has ended: `None` until then.
pub type Ended = Arc<Mutex<Option<Result<()>>>>;

impl Front {
    /// Serves this tree and this store to the kernel. What closing the store gives goes to `ended`.
    #[must_use]
    pub fn new(tree: Arc<Tree>, store: Arc<Store>, read_only: bool, kernel: Kernel, ended: Ended) -> Self {
        Self { tree, store, files: Handles::default(), folders: Handles::default(), read_only, kernel, ended }
    }

    /// The attributes with what is only in memory.
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

    /// The stored file of a node, opened if it is not.
    fn backing(&self, number: u64) -> Result<Arc<Backing>> {
        if let Some(backing) = self.store.get(inode(number)) {
            return Ok(backing);
        }
        let file = match self.tree.open_file(number, !self.read_only) {
            // Whoever may read the file may not be allowed to write it.
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
        // It was opened when nobody could write it. If somebody can by now, they have to wait until it is closed.
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

    /// Somebody changes a file's content who may not keep its set-user-ID and set-group-ID, so these go first. The kernel leaves
    /// this to the file system, and forgets the attributes then.
    fn take_set_ids(&self, request: &Request, number: INodeNo) -> Result<()> {
        if self.tree.take_set_ids(number.0, request.gid())? {
            self.kernel.forget_attributes(number.0);
        }
        Ok(())
    }

    /// [`Self::take_set_ids`] where the kernel does not say who may keep them: the superuser may.
    fn take_set_ids_of_users(&self, request: &Request, number: INodeNo) -> Result<()> {
        if request.uid() == 0 { Ok(()) } else { self.take_set_ids(request, number) }
    }

    /// Sets the time of the last change of a file that is open. Returns what of the times is left to be set.
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

    /// What binds the extended attributes of a file.
    fn id(&self, number: u64) -> Result<[u8; 16]> {
        Ok(self.backing(number)?.id())
    }

    fn open_handle(&self, backing: Arc<Backing>, writes: bool) -> FileHandle {
        FileHandle(self.files.add(Arc::new(Open { witness: backing.witness(), backing, writes })))
    }

    /// What is read of an open folder. Whoever begins, or goes back to its beginning, sees what is there now.
    fn listing(&self, number: u64, handle: FileHandle, offset: u64) -> Result<Arc<Listing>> {
        let open = self.folders.get(handle.0).ok_or(VolumeError::Refused(rustix::io::Errno::BADF))?;
        let mut listing = open.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listing {
            Some(listing) if offset > 0 => Ok(listing.clone()),
            _ => Ok(listing.insert(self.tree.list(number)?).clone()),
        }
    }

    /// The metadata of a file has changed: the next sync of its content has to make sure that this is on the disk too.
    fn changed(&self, number: u64) {
        if let Some(backing) = self.store.get(inode(number)) {
            backing.mark_named();
        }
    }
}

thread_local! {
    /// What was read last. Memory of its own for each read would cost more than to decrypt into it.
    static BUFFER: RefCell<Zeroizing<Vec<u8>>> = RefCell::default();
}

/// The inode behind the number of a node.
fn inode(number: u64) -> u64 {
    if number == u64::MAX { 1 } else { number }
}

fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}
