//! The FUSE session of any [`Filesystem`]: it is mounted, serves until somebody unmounts it, and ends in order.
//!
//! First [`check_system`] and [`Mountpoint::new`] report what is missing, before a password is asked for. Then
//! [`Session::mount`] mounts, and [`Session::run`] serves. [`Stopper::stop`] unmounts from any thread, and
//! [`Idler::stop_after`] unmounts when nobody uses the mount.

mod attach;
mod detach;
mod idle;
mod options;
mod place;
mod table;

pub use detach::{Stopped, Stopper};
pub use idle::Idler;
pub use options::MountOptions;
pub use place::{Mountpoint, check_system};

use crate::fuse::{Device, Filesystem, Notifier, Offer, Ring, Server};
use attach::Attached;
use idle::Clock;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// The most threads that serve, each with memory for a request of 1 MiB, unless the machine has more cores.
const MOST_THREADS: usize = 32;

/// By which way the kernel sends requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By io_uring where the kernel offers it and the system allows it, and by the device otherwise.
    #[default]
    Auto,
    /// By its device, `/dev/fuse`.
    Device,
    /// By io_uring. Small requests are answered faster.
    Uring,
}

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
    /// Somebody has ended the session without unmounting it.
    #[error("the session was ended by force: what programs had written and not synced may be missing")]
    Forced,
    /// The mountpoint is the source, contains it, or lies within it.
    #[error("{0}")]
    Overlap(&'static str),
    /// The kernel does not send requests by io_uring.
    #[error("the kernel does not offer FUSE by io_uring")]
    NoUring,
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

/// The way from a file system to the kernel, once [`Session::connect`] has been called.
#[derive(Clone, Debug, Default)]
pub struct Kernel(Arc<OnceLock<Notifier>>);

impl Kernel {
    /// Makes the kernel forget the attributes of a node, which have changed.
    pub(crate) fn forget_attributes(&self, number: u64) {
        if let Some(notifier) = self.0.get() {
            notifier.forget_attributes(number);
        }
    }
}

/// A mounted file system that is not served yet. It is unmounted on drop.
pub struct Session<F: Filesystem> {
    server: Server<F>,
    device: Device,
    threads: usize,
    /// Empty if requests come by the device.
    rings: Vec<Ring>,
    mounted: Mounted,
}

impl<F: Filesystem> Session<F> {
    /// Mounts. So many threads will serve requests; without a number, one for each core and at least two, and by io_uring
    /// two to four for each core.
    ///
    /// # Errors
    /// If the system refuses, or lacks what [`check_system`] looks for; if the mountpoint is not as it was checked; if
    /// the kernel does not offer the way.
    pub fn mount(
        filesystem: F,
        mountpoint: &Mountpoint,
        options: &MountOptions,
        way: Way,
        threads: Option<NonZeroUsize>,
    ) -> Result<Self, MountError> {
        let failed = |source| MountError::Io { doing: "mounting", source };
        let threads = threads.map(|threads| threads.get().min(MOST_THREADS));
        mountpoint.check_again()?;
        let Attached { device, watch } = attach::attach(mountpoint, options)?;
        let stopper = Stopper::new(device.try_clone().map_err(failed)?, mountpoint);
        let clock = Arc::new(Clock::new());
        let mounted = Mounted { stopper, clock: clock.clone(), _watch: watch };
        let device = Device::new(device);
        let offer = Offer::take(&device).map_err(failed)?;
        let rings = rings(&device, way, offer.has_ring(), threads)?;
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get).max(2);
        let threads = threads.unwrap_or_else(|| cores().min(MOST_THREADS));
        let admitted = options.admitted(geteuid().as_raw());
        let (caching, _) = admitted.caching(filesystem.caching());
        offer.accept(&device, caching, !rings.is_empty()).map_err(failed)?;
        let server = Server::new(filesystem, admitted, Box::new(move || clock.used()));
        Ok(Self { server, device, threads, rings, mounted })
    }

    /// By which way requests come: the device or io_uring.
    #[must_use]
    pub fn way(&self) -> Way {
        if self.rings.is_empty() { Way::Device } else { Way::Uring }
    }

    /// Connects `kernel` to this session's kernel.
    pub fn connect(&self, kernel: &Kernel) {
        if let Ok(notifier) = Notifier::new(self.device.as_fd()) {
            let _ = kernel.0.set(notifier);
        }
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
    /// If threads cannot be started, or the kernel's device fails. [`MountError::Forced`] if the session was ended by
    /// force; then it is unmounted here.
    pub fn run(self) -> Result<(), MountError> {
        let Self { server, device, threads, rings, mounted } = self;
        let mut crew = Crew::new(server);
        let served = crew.serve(device, threads, rings, &mounted.stopper);
        if served.is_err() {
            // Requests would wait for the thread that has failed.
            mounted.stopper.abandon();
        }
        let mut was_forced = false;
        if mounted.stopper.is_over() {
            crew.join();
            was_forced = mounted.stopper.unmount_dead();
        }
        crew.server.destroy();
        served.map_err(|source| MountError::Io { doing: "serving the mount", source })?;
        if was_forced { Err(MountError::Forced) } else { Ok(()) }
    }
}

/// The rings by which requests will come; none if they will come by the device.
fn rings(device: &Device, way: Way, is_offered: bool, threads: Option<usize>) -> Result<Vec<Ring>, MountError> {
    let all = || Ring::all(device.as_fd(), threads);
    match (way, is_offered) {
        (Way::Device, _) | (Way::Auto, false) => Ok(Vec::new()),
        // Containers often forbid io_uring.
        (Way::Auto, true) => Ok(all().unwrap_or_default()),
        (Way::Uring, false) => Err(MountError::NoUring),
        (Way::Uring, true) => all().map_err(|source| MountError::Io { doing: "setting up io_uring", source }),
    }
}

/// The threads that serve.
struct Crew<F: Filesystem> {
    server: Arc<Server<F>>,
    threads: Vec<JoinHandle<()>>,
    ends: Sender<io::Result<()>>,
    ended: Receiver<io::Result<()>>,
}

impl<F: Filesystem> Crew<F> {
    fn new(server: Server<F>) -> Self {
        let (ends, ended) = mpsc::channel();
        Self { server: Arc::new(server), threads: Vec::new(), ends, ended }
    }

    /// Serves until the session ends, or a thread fails: the others may wait for requests then.
    fn serve(&mut self, device: Device, threads: usize, rings: Vec<Ring>, stopper: &Stopper) -> io::Result<()> {
        let (says, said) = mpsc::channel();
        let is_by_ring = !rings.is_empty();
        for (number, ring) in rings.into_iter().enumerate() {
            let says = says.clone();
            let registered = move |is_registered| {
                let _ = says.send(is_registered);
            };
            self.start(format!("ring-{number}"), move |server| ring.run(server, registered))?;
        }
        drop(says);
        // If the kernel has refused one of them, it sends requests by the device again.
        let rests = is_by_ring && said.iter().all(|is_registered| is_registered);
        for number in 1..if rests { 1 } else { threads } {
            match device.again() {
                Ok(device) => self.start(format!("fuse-{number}"), move |server| device.run(server, rests))?,
                // It was unmounted before the kernel had sent its first request.
                Err(_) if stopper.is_over() => break,
                Err(e) => return Err(e),
            }
        }
        self.start("fuse-0".into(), move |server| device.run(server, rests))?;
        let mut ended = self.ended.iter().take(self.threads.len());
        ended.try_for_each(|ended| ended.or_else(|error| counted(error, stopper.is_over())))
    }

    fn start(
        &mut self,
        name: String,
        work: impl FnOnce(&Server<F>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (server, ends) = (self.server.clone(), self.ends.clone());
        let work = move || {
            let panicked = |_| Err(io::Error::other("a thread has panicked"));
            let ended = catch_unwind(AssertUnwindSafe(|| work(&server))).unwrap_or_else(panicked);
            let _ = ends.send(ended);
        };
        self.threads.push(thread::Builder::new().name(name).spawn(work)?);
        Ok(())
    }

    /// Waits for all threads, which end when the session is over.
    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What the error counts with which a thread has ended. A thread that asks or answers while the kernel ends the session
/// gets one of several errors, by how far the kernel is: `ENOENT` or `EIO` for an answer by io_uring whose request the
/// kernel has just dropped. So none of the kernel's errors is a failure once the session is over. A thread's own are.
fn counted(error: io::Error, is_over: bool) -> io::Result<()> {
    if is_over && error.raw_os_error().is_some() { Ok(()) } else { Err(error) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_kernel_count_until_the_session_is_over_and_those_of_threads_always() {
        for errno in [Errno::NOENT, Errno::IO, Errno::NODEV] {
            counted(errno.into(), true).unwrap();
            assert_eq!(Errno::from_io_error(&counted(errno.into(), false).unwrap_err()), Some(errno));
        }
        for is_over in [true, false] {
            counted(io::Error::other("a thread has panicked"), is_over).unwrap_err();
            counted(io::ErrorKind::InvalidData.into(), is_over).unwrap_err();
        }
    }
}
