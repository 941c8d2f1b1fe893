//! A mount that unmounts itself once nobody uses it.
//!
//! Each request is use, except for the space that is left (`df`), which programs ask for that look after all mounts, and except
//! for what the kernel forgets. Who has a file or folder open, or works in one, keeps the mount: the kernel knows of them,
//! and refuses. Then the time begins again.

use super::{Kernel, MountError, Stopper};
use fuser::{FileAttr, FileType, Generation, INodeNo, ReplyEntry};
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The number of the door's node. Other nodes have those of the folder below, or the highest one.
const DOOR: INodeNo = INodeNo(u64::MAX - 1);
/// How long the kernel may take the door's attributes for true: until it has gone through.
const TTL: Duration = Duration::from_secs(60);

/// When a mount was used last.
#[derive(Debug)]
pub(super) struct Uses {
    start: Instant,
    /// In milliseconds from the start.
    last: AtomicU64,
    /// A name that nobody else knows, and no other mount has. The path through this folder and back leads to the root of this
    /// mount or nowhere, even if another mount takes its place while the kernel follows the path.
    door: OsString,
}

impl Uses {
    fn new() -> Result<Self, MountError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| MountError::Io {
            doing: "drawing a random name",
            source: phalanx_core::Error::Random(e).into(),
        })?;
        let door = format!(".phalanx-idle-{:032x}", u128::from_ne_bytes(random)).into();
        Ok(Self { start: Instant::now(), last: AtomicU64::new(0), door })
    }

    pub(super) fn note(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    /// When it will have been unused for so long, if nobody uses it from now on.
    fn idle_at(&self, after: Duration) -> Option<Instant> {
        // The part of a millisecond that was dropped counts too.
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed).saturating_add(1));
        self.start.checked_add(last)?.checked_add(after)
    }
}

impl Kernel {
    /// Answers if what is looked up is the door of a mount that unmounts itself. This is no use of the mount.
    pub(crate) fn opens_door(&self, parent: INodeNo, name: &OsStr, reply: ReplyEntry) -> Option<ReplyEntry> {
        if parent != INodeNo::ROOT || self.0.uses.get().is_none_or(|uses| uses.door != name) {
            return Some(reply);
        }
        let attr = FileAttr {
            ino: DOOR,
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::Directory,
            perm: 0o555,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        reply.entry(&TTL, &attr, Generation(0));
        None
    }
}

/// Starts the thread that unmounts, which ends when what this returns is dropped.
pub(super) fn start(
    stopper: Stopper,
    kernel: &Kernel,
    after: Duration,
    failed: impl FnOnce(MountError) + Send + 'static,
) -> Result<Sender<()>, MountError> {
    let _ = kernel.0.uses.set(Uses::new()?);
    let kernel = kernel.clone();
    let (alive, end) = mpsc::channel();
    let watch = move || {
        if let Some(uses) = kernel.0.uses.get() {
            watch(&stopper, uses, after, &end, failed);
        }
    };
    let thread = thread::Builder::new().name("idle".into()).spawn(watch);
    thread.map_err(|source| MountError::Io { doing: "starting a thread", source })?;
    Ok(alive)
}

/// Sleeps until it can have been unused for so long at the earliest, and unmounts it then, or sleeps again.
fn watch(stopper: &Stopper, uses: &Uses, after: Duration, end: &Receiver<()>, failed: impl FnOnce(MountError)) {
    let (mut failed, mut refused) = (Some(failed), uses.start);
    // A time that the clock does not have never comes.
    while let (Some(idle), Some(again)) = (uses.idle_at(after), refused.checked_add(after)) {
        let wait = idle.max(again).saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            match end.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => continue,
                _ => return,
            }
        }
        match (stopper.stop_unused(&uses.door), failed.take()) {
            (Ok(true), _) => return,
            (Err(e), Some(tell)) => tell(e),
            (_, unused) => failed = unused,
        }
        refused = Instant::now();
    }
}
