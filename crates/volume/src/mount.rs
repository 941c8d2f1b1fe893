//! The FUSE session of any [`fuser::Filesystem`]: it is mounted, serves until somebody unmounts it, and ends in order.
//!
//! First [`check_system`] and [`Mountpoint::new`] report what is missing, before a password is asked for. Then
//! [`Session::mount`] mounts, and [`Session::run`] serves. [`Stopper::stop`] unmounts from any thread, and
//! [`Idler::stop_after`] unmounts when nobody uses the mount.

mod attach;
mod detach;
mod idle;
mod linger;
mod options;
mod place;
mod table;

pub use detach::{Stopped, Stopper};
pub use idle::Idler;
pub use options::MountOptions;
pub use place::{Mountpoint, check_system};

pub use fuser::Filesystem;

use attach::Attached;
use fuser::{Config, INodeNo, InitFlags, KernelConfig, Notifier};
use idle::{Clock, Noted};
use rustix::io::Errno;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
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
    #[error("there is no /dev/fuse")]
    NoDevice,
    /// This user may not use it.
    #[error("/dev/fuse: access is denied")]
    DeviceDenied,
    /// Only root mounts without this program.
    #[error("fusermount3 is not installed")]
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
    #[error("something is mounted here already")]
    Mounted,
    /// Something is mounted there, and the program that served it has ended.
    #[error("what is mounted here has lost its program")]
    Dead,
    /// The kernel does not show which mount is this one.
    #[error("its own mount is not in the list of mounts, /proc/self/mountinfo")]
    NotSeen,
    /// Another mount lies on this one.
    #[error("something else is mounted on top of it")]
    Covered,
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

/// Asks the kernel, in [`Filesystem::init`], for requests of up to 1 MiB and parallel work in folders. What the kernel
/// does not have is left out.
///
/// If `writable`, the kernel keeps what is written and passes it on in large pieces. The file system then has to clear
/// set-user-ID and set-group-ID itself when content is changed, and in return the kernel does not look for capabilities
/// before each write. Otherwise it drops what it keeps of a file whose length or time of modification has changed.
pub fn tune(config: &mut KernelConfig, writable: bool) {
    // If the kernel allows less, the error says how much.
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
    /// If it is missing, threads sleep between requests.
    device: Option<OwnedFd>,
}

impl Kernel {
    /// Makes the kernel forget the attributes of a node, which have changed.
    pub(crate) fn forget_attributes(&self, number: u64) {
        if let Some(connection) = self.0.get() {
            // It may have forgotten the node already.
            let _ = connection.notifier.inval_inode(INodeNo(number), -1, 0);
        }
    }

    /// Marks a short request, which is served until the returned value is dropped. Its thread then polls for the next
    /// one for a while.
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

/// A mounted file system that is not served yet. It is unmounted on drop.
pub struct Session<F: Filesystem> {
    session: fuser::Session<Noted<F>>,
    mounted: Mounted,
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
        let failed = |source| MountError::Io { doing: "mounting", source };
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get).max(2);
        let mut config = Config::default();
        config.n_threads = Some(threads.map_or_else(cores, NonZeroUsize::get).min(MOST_THREADS));
        config.clone_fd = true;
        mountpoint.check_again()?;
        let Attached { device, watch } = attach::attach(mountpoint, options)?;
        let stopper = Stopper::new(device.try_clone().map_err(failed)?, mountpoint.path());
        let clock = Arc::new(Clock::new());
        let filesystem = Noted { filesystem, clock: clock.clone() };
        let mounted = Mounted { stopper, clock, _watch: watch };
        let session = fuser::Session::from_fd(filesystem, device, options.acl(), config).map_err(failed)?;
        Ok(Self { session, mounted })
    }

    /// Connects `kernel` to this session's kernel.
    pub fn connect(&self, kernel: &Kernel) {
        let device = self.session.as_fd().try_clone_to_owned().ok();
        let _ = kernel.0.set(Connection { notifier: self.session.notifier(), device });
    }

    /// The value that unmounts it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.mounted.stopper.clone()
    }

    /// The value that unmounts it when nobody uses it.
    #[must_use]
    pub fn idler(&self) -> Idler {
        Idler { stopper: self.stopper(), clock: self.mounted.clock.clone() }
    }

    /// Serves until it is unmounted. Then [`Filesystem::destroy`] has been called.
    ///
    /// # Errors
    /// If threads cannot be started, or the kernel's device fails.
    pub fn run(self) -> Result<(), MountError> {
        let Self { session, mounted } = self;
        match session.run() {
            // It was unmounted before the kernel had sent its first request.
            Err(_) if mounted.stopper.is_over() => Ok(()),
            done => done.map_err(|source| MountError::Io { doing: "serving the mount", source }),
        }
    }
}

/// The mount itself. It is unmounted on drop, unless the kernel has done so already.
struct Mounted {
    stopper: Stopper,
    clock: Arc<Clock>,
    _watch: Option<UnixStream>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.stopper.abandon();
        self.clock.end();
    }
}
