//! Unmounting a mount that nobody uses.
//!
//! Each request to the program counts as use and restarts the clock. When the time has run out, the kernel is asked to
//! unmount. It refuses while a file, a folder or a working directory is open, which restarts the clock too.
//!
//! Programs that show how full disks are, such as `df`, often ask all mounts for the free space and the attributes of
//! the topmost folder. This does not count as use.

use super::{MountError, Stopper};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek,
    ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Unmounts a mount that nobody uses.
pub struct Idler {
    pub(super) stopper: Stopper,
    pub(super) clock: Arc<Clock>,
}

impl Idler {
    /// Waits until nobody has used the mount for this long, and unmounts it. Calls `failed` the first time that the
    /// system refuses for a reason other than use. Returns when the mount is gone, even if somebody else has unmounted
    /// it.
    pub fn stop_after(&self, limit: Duration, failed: impl FnOnce(MountError)) {
        let (mut begun, mut failed) = (self.clock.start, Some(failed));
        loop {
            begun = begun.max(self.clock.last());
            let left = limit.saturating_sub(begun.elapsed());
            if self.clock.ends_within(left) {
                return;
            }
            // The mount may have been used while this thread slept.
            if self.clock.last() > begun {
                continue;
            }
            match self.stopper.stop_if_unused() {
                Ok(true) => return,
                Ok(false) => {}
                Err(e) => drop(failed.take().map(|failed| failed(e))),
            }
            begun = Instant::now();
        }
    }
}

/// When a mount was used last, and whether it is still there.
pub(super) struct Clock {
    start: Instant,
    /// Nanoseconds after the start.
    used: AtomicU64,
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Clock {
    pub fn new() -> Self {
        Self { start: Instant::now(), used: AtomicU64::new(0), is_over: Mutex::default(), ended: Condvar::new() }
    }

    fn used(&self) {
        self.used.store(self.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.start + Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// Records that the session has ended.
    pub fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.notify_all();
    }

    fn ends_within(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A file system whose use is recorded.
pub(super) struct Noted<F> {
    pub filesystem: F,
    pub clock: Arc<Clock>,
}

/// Passes requests on. They count as use, some of them only if they are not about the topmost folder.
macro_rules! passed_on {
    ($($name:ident($($arg:ident: $kind:ty),* $(,)?);)*) => {
        $(fn $name(&self, request: &Request, $($arg: $kind),*) {
            self.clock.used();
            self.filesystem.$name(request, $($arg),*);
        })*
    };
    (but the topmost folder: $($name:ident($($arg:ident: $kind:ty),* $(,)?);)*) => {
        $(fn $name(&self, request: &Request, number: INodeNo, $($arg: $kind),*) {
            if number != INodeNo::ROOT {
                self.clock.used();
            }
            self.filesystem.$name(request, number, $($arg),*);
        })*
    };
}

impl<F: Filesystem> Filesystem for Noted<F> {
    fn init(&mut self, request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.filesystem.init(request, config)
    }

    fn destroy(&mut self) {
        self.filesystem.destroy();
    }

    // The kernel itself sends these, at any time.

    fn forget(&self, request: &Request, number: INodeNo, times: u64) {
        self.filesystem.forget(request, number, times);
    }

    fn statfs(&self, request: &Request, number: INodeNo, reply: ReplyStatfs) {
        self.filesystem.statfs(request, number, reply);
    }

    passed_on! {
        but the topmost folder:
        getattr(handle: Option<FileHandle>, reply: ReplyAttr);
        getxattr(name: &OsStr, size: u32, reply: ReplyXattr);
        listxattr(size: u32, reply: ReplyXattr);
        access(mask: AccessFlags, reply: ReplyEmpty);
    }

    passed_on! {
        lookup(parent: INodeNo, name: &OsStr, reply: ReplyEntry);
        setattr(
            number: INodeNo, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>, size: Option<u64>,
            atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>, ctime: Option<SystemTime>, handle: Option<FileHandle>,
            created: Option<SystemTime>, changed: Option<SystemTime>, saved: Option<SystemTime>,
            flags: Option<BsdFileFlags>, reply: ReplyAttr,
        );
        readlink(number: INodeNo, reply: ReplyData);
        mknod(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, device: u32, reply: ReplyEntry);
        mkdir(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry);
        unlink(parent: INodeNo, name: &OsStr, reply: ReplyEmpty);
        rmdir(parent: INodeNo, name: &OsStr, reply: ReplyEmpty);
        symlink(parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry);
        rename(
            parent: INodeNo, name: &OsStr, to: INodeNo, new_name: &OsStr, flags: RenameFlags, reply: ReplyEmpty,
        );
        link(number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry);
        open(number: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        create(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32, reply: ReplyCreate);
        read(
            number: INodeNo, handle: FileHandle, offset: u64, size: u32, flags: OpenFlags, owner: Option<LockOwner>,
            reply: ReplyData,
        );
        write(
            number: INodeNo, handle: FileHandle, offset: u64, data: &[u8], how: WriteFlags, flags: OpenFlags,
            owner: Option<LockOwner>, reply: ReplyWrite,
        );
        flush(number: INodeNo, handle: FileHandle, owner: LockOwner, reply: ReplyEmpty);
        release(
            number: INodeNo, handle: FileHandle, flags: OpenFlags, owner: Option<LockOwner>, flush: bool,
            reply: ReplyEmpty,
        );
        fsync(number: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty);
        opendir(number: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        readdir(number: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory);
        readdirplus(number: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectoryPlus);
        releasedir(number: INodeNo, handle: FileHandle, flags: OpenFlags, reply: ReplyEmpty);
        fsyncdir(number: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty);
        setxattr(number: INodeNo, name: &OsStr, value: &[u8], flags: i32, position: u32, reply: ReplyEmpty);
        removexattr(number: INodeNo, name: &OsStr, reply: ReplyEmpty);
        fallocate(number: INodeNo, handle: FileHandle, offset: u64, len: u64, mode: i32, reply: ReplyEmpty);
        lseek(number: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek);
        getlk(
            number: INodeNo, handle: FileHandle, owner: LockOwner, start: u64, end: u64, kind: i32, process: u32,
            reply: ReplyLock,
        );
        setlk(
            number: INodeNo, handle: FileHandle, owner: LockOwner, start: u64, end: u64, kind: i32, process: u32,
            sleep: bool, reply: ReplyEmpty,
        );
        bmap(number: INodeNo, size: u32, index: u64, reply: ReplyBmap);
        ioctl(
            number: INodeNo, handle: FileHandle, flags: IoctlFlags, command: u32, input: &[u8], size: u32,
            reply: ReplyIoctl,
        );
        poll(
            number: INodeNo, handle: FileHandle, notifier: PollNotifier, events: PollEvents, flags: PollFlags,
            reply: ReplyPoll,
        );
        copy_file_range(
            number: INodeNo, handle: FileHandle, offset: u64, to: INodeNo, to_handle: FileHandle, to_offset: u64,
            len: u64, flags: CopyFileRangeFlags, reply: ReplyWrite,
        );
    }
}
