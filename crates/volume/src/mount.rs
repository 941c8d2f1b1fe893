//! The FUSE session of any [`fuser::Filesystem`]: it is mounted, serves until somebody unmounts it, and ends in order.
//!
//! First [`check_system`] and [`Mountpoint::new`] say what is missing, before anybody is asked for a password. Then
//! [`Session::mount`] mounts, and [`Session::run`] serves. [`Stopper::stop`] unmounts, from any thread.

mod linger;
mod options;
mod place;

pub use options::MountOptions;
pub use place::{Mountpoint, check_system};

pub use fuser::Filesystem;

use fuser::{INodeNo, InitFlags, KernelConfig, Notifier};
use place::{MountId, fusermount};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;

/// The longest request, in bytes.
const REQUEST: u32 = 1 << 20;
/// Each thread of a session reserves 18 MiB of addresses, which count where memory is locked.
const MOST_THREADS: usize = 32;

/// Why something cannot be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The kernel's FUSE is not there.
    #[error("no /dev/fuse: load the kernel module fuse, or run the container with --device /dev/fuse")]
    NoDevice,
    /// This user may not use it.
    #[error("/dev/fuse: access is denied: ask for permission to read and write it")]
    DeviceDenied,
    /// Only root mounts without this program.
    #[error("fusermount3 is not installed: install the package fuse3")]
    NoFusermount,
    /// The system does not let users mount for others.
    #[error("allow_other and allow_root need the line user_allow_other in /etc/fuse.conf")]
    NoAllowOther,
    /// A mount option that is not known.
    #[error("unknown mount option {0}")]
    UnknownOption(String),
    /// A mount option that is wrong here.
    #[error("{0}")]
    Option(String),
    /// The mountpoint does not exist.
    #[error("no such folder")]
    Missing,
    /// The mountpoint is not a folder.
    #[error("not a folder: a mountpoint is an empty folder")]
    NotFolder,
    /// The mountpoint has entries.
    #[error("not empty: a mountpoint is an empty folder")]
    NotEmpty,
    /// The mountpoint is not the folder that was checked.
    #[error("something else was put in its place: nothing is mounted")]
    Replaced,
    /// Something is mounted there.
    #[error("something is mounted here already (fusermount3 -u unmounts it)")]
    Mounted,
    /// Something is mounted there, and the program behind it has ended.
    #[error("what is mounted here has lost its program (fusermount3 -u unmounts it)")]
    Dead,
    /// The mountpoint is the source, contains it, or lies within it.
    #[error("{0}")]
    Overlap(&'static str),
    /// A system call failed.
    #[error("{doing} failed: {source}")]
    Io {
        /// What was done.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl MountError {
    fn io(doing: &'static str) -> impl FnOnce(Errno) -> Self {
        move |e| Self::Io { doing, source: e.into() }
    }
}

/// What [`Filesystem::init`] asks the kernel for: requests of up to 1 MiB and parallel work in folders. What the kernel
/// does not have is left out.
///
/// If `writable`, the kernel keeps what is written and passes it on in large pieces. The file system then has to clear
/// set-user-ID and set-group-ID itself when content is changed, and in return the kernel does not look for capabilities before
/// each write. Otherwise it drops what it keeps of a file whose length or time of modification has changed.
pub fn tune(config: &mut KernelConfig, writable: bool) {
    // Where the kernel wants less, it says what is possible.
    if let Err(most) = config.set_max_write(REQUEST) {
        let _ = config.set_max_write(most);
    }
    if let Err(most) = config.set_max_readahead(REQUEST) {
        let _ = config.set_max_readahead(most);
    }
    let _ = config.set_max_background(64);
    // FUSE_ASYNC_READ, FUSE_BIG_WRITES and FUSE_MAX_PAGES are asked for by fuser. It does not splice.
    let more = if writable {
        InitFlags::FUSE_WRITEBACK_CACHE | InitFlags::FUSE_HANDLE_KILLPRIV_V2
    } else {
        InitFlags::FUSE_AUTO_INVAL_DATA
    };
    for capability in (InitFlags::FUSE_PARALLEL_DIROPS | more).iter() {
        let _ = config.add_capabilities(capability);
    }
}

/// The way from a file system to the kernel, once [`Session::connect`] has been called.
#[derive(Clone, Debug, Default)]
pub struct Kernel(Arc<OnceLock<Connection>>);

#[derive(Debug)]
struct Connection {
    notifier: Notifier,
    /// Without it, threads sleep between requests.
    device: Option<OwnedFd>,
}

impl Kernel {
    /// The attributes of a node are not those that it was told last.
    pub(crate) fn forget_attributes(&self, number: u64) {
        if let Some(connection) = self.0.get() {
            // It may have forgotten the node, which is as well.
            let _ = connection.notifier.inval_inode(INodeNo(number), -1, 0);
        }
    }

    /// One short request is served until this is dropped. Then its thread looks out for the next one for a while.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn(self)
    }
}

/// See [`Kernel::turn`].
#[must_use]
pub(crate) struct Turn<'a>(&'a Kernel);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(device) = self.0.0.get().and_then(|connection| connection.device.as_ref()) {
            linger::linger(device);
        }
    }
}

/// A mounted file system, which nobody serves yet.
pub struct Session<F: Filesystem> {
    session: fuser::Session<F>,
    stopper: Stopper,
}

impl<F: Filesystem> Session<F> {
    /// Mounts. `threads` threads will serve requests; without a number, one for each core, but at least two.
    ///
    /// # Errors
    /// If the system refuses, or lacks what [`check_system`] looks for; if the mountpoint is not as it was checked.
    pub fn mount(
        filesystem: F,
        mountpoint: &Mountpoint,
        options: &MountOptions,
        threads: Option<NonZeroUsize>,
    ) -> Result<Self, MountError> {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get).max(2);
        let mut config = options.config();
        config.n_threads = Some(threads.map_or_else(cores, NonZeroUsize::get).min(MOST_THREADS));
        config.clone_fd = true;
        let path = mountpoint.path();
        mountpoint.check_again()?;
        let session = fuser::Session::new(filesystem, path, &config).map_err(explain)?;
        let stopper = Stopper { mountpoint: path.into(), id: MountId::at(path) };
        Ok(Self { session, stopper })
    }

    /// From now on `kernel` reaches the kernel.
    pub fn connect(&self, kernel: &Kernel) {
        let device = self.session.as_fd().try_clone_to_owned().ok();
        let _ = kernel.0.set(Connection { notifier: self.session.notifier(), device });
    }

    /// What unmounts it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is unmounted. Then [`Filesystem::destroy`] has been called.
    ///
    /// # Errors
    /// If threads cannot be started, or the kernel's device fails.
    pub fn run(self) -> Result<(), MountError> {
        match self.session.run() {
            // It was unmounted before the kernel had said that it is there.
            Err(_) if self.stopper.is_unmounted() => Ok(()),
            done => done.map_err(|source| MountError::Io { doing: "serving the mount", source }),
        }
    }
}

/// The error of a mount that was refused, in one line.
fn explain(error: io::Error) -> MountError {
    let text = error.to_string();
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("fusermount3 refused").to_owned();
    match error.kind() {
        // The device was there before.
        io::ErrorKind::NotFound => MountError::NoFusermount,
        _ if text.contains("user_allow_other") => MountError::NoAllowOther,
        kind => MountError::Io { doing: "mounting", source: io::Error::new(kind, line) },
    }
}

/// Unmounts one mount, and no other that may later be in the same place.
#[derive(Clone, Debug)]
pub struct Stopper {
    mountpoint: Arc<Path>,
    id: Option<MountId>,
}

/// How an unmount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing is mounted any more, and the session ends.
    Unmounted,
    /// The mount was in use. Its name is gone, and the session ends when the last file in it is closed.
    Busy,
}

impl Stopper {
    /// Whether it is known that nothing is mounted any more.
    fn is_unmounted(&self) -> bool {
        self.id.is_some() && MountId::at(&self.mountpoint) != self.id
    }

    /// Unmounts. What the kernel has to write is written first, so this may take a while.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn stop(&self) -> Result<Stopped, MountError> {
        // A mount elsewhere on the system may be of another namespace: then nothing is known, and it is tried.
        if self.is_unmounted() {
            return Ok(Stopped::Unmounted);
        }
        match rustix::mount::unmount(&*self.mountpoint, UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(Stopped::Unmounted),
            // Somebody else was faster. Where the mount was never seen, it may be mounted elsewhere.
            Err(Errno::INVAL | Errno::NOENT) if self.id.is_some() => Ok(Stopped::Unmounted),
            Err(Errno::BUSY) => {
                let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
                rustix::mount::unmount(&*self.mountpoint, flags).map_err(MountError::io("unmounting"))?;
                Ok(Stopped::Busy)
            }
            Err(Errno::PERM) => self.stop_as_user(),
            Err(e) => Err(MountError::io("unmounting")(e)),
        }
    }

    /// Users other than root have a program for it.
    fn stop_as_user(&self) -> Result<Stopped, MountError> {
        let program = fusermount().ok_or(MountError::NoFusermount)?;
        for (switches, stopped) in [(&["-u"][..], Stopped::Unmounted), (&["-u", "-z"], Stopped::Busy)] {
            let mut command = Command::new(&program);
            command.args(switches).arg("--").arg(&*self.mountpoint);
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            match status {
                Ok(status) if status.success() => return Ok(stopped),
                Ok(_) => {}
                Err(source) => return Err(MountError::Io { doing: "running fusermount3", source }),
            }
        }
        let refused = io::Error::other("fusermount3 refused");
        Err(MountError::Io { doing: "unmounting", source: refused })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn mountpoint(&self) -> PathBuf {
        self.mountpoint.to_path_buf()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_was_never_seen_is_not_taken_for_unmounted() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("none")] {
            let stopper = Stopper { mountpoint: path.into(), id: None };
            assert!(!stopper.is_unmounted() && stopper.stop().is_err());
        }
    }
}
