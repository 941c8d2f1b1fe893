//! A volume's folder: made, and opened for one mount at a time.

use crate::error::{Result, VolumeError};
use crate::folder::{self, FOLDER, NEW};
use crate::names::Names;
use crate::versions::{self, VERSIONS};
use phalanx_core::volume::{CONFIG, Config, Features};
use phalanx_core::{ChunkSize, KeySource, Opener, Recipient, Suite};
use phalanx_host::file::{self, Existing, Output};
use phalanx_host::folders::parent;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, mkdirat, open, openat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for a volume that is in use.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks that a folder can become a volume: it does not exist, or is empty except for files that a killed [`create`]
/// has left.
///
/// # Errors
/// `EEXIST` if it is a volume already, `ENOTEMPTY` if something else is in it, `ENOTDIR` if it is no folder.
pub fn check_new(dir: &Path) -> Result<()> {
    let fd = match open_root(dir) {
        Err(VolumeError::Refused(Errno::NOENT)) => return Ok(()),
        opened => opened?,
    };
    check_empty(&fd)
}

fn check_empty(fd: &OwnedFd) -> Result<()> {
    let mut others = false;
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name if name == CONFIG.as_bytes() => return Err(Errno::EXIST.into()),
            // A killed run may have left a table. Another volume's table stays where it is.
            name if name == VERSIONS.as_bytes() => others |= !versions::is_left(fd),
            name => others |= name != FOLDER.as_bytes() && !name.starts_with(NEW.as_bytes()) && !is_unfinished(name),
        }
    }
    if others { Err(Errno::NOTEMPTY.into()) } else { Ok(()) }
}

/// Whether this is a temporary name that a killed run has left.
fn is_unfinished(name: &[u8]) -> bool {
    name.starts_with(b".phalanx-")
}

/// Makes a volume of a folder that [`check_new`] accepts. The config is written last, and everything is on the disk
/// when this returns.
///
/// # Errors
/// Those of [`check_new`] and [`Config::create`]; or if the folder cannot be made or written to.
pub fn create(dir: &Path, suite: Suite, chunk_size: ChunkSize, recipients: &[Recipient]) -> Result<()> {
    create_with(dir, suite, chunk_size, Features::default(), recipients)
}

/// Makes a volume with these features, as [`create`] does.
///
/// # Errors
/// Those of [`create`].
pub fn create_with(
    dir: &Path,
    suite: Suite,
    chunk_size: ChunkSize,
    features: Features,
    recipients: &[Recipient],
) -> Result<()> {
    let (bytes, config) = Config::create_with(suite, chunk_size, features, recipients)?;
    match mkdirat(CWD, dir, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let root = open_root(dir)?;
    check_empty(&root)?;
    match unlinkat(&root, FOLDER, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    folder::init(&root, &Names::new(config.keys()))?;
    versions::init(&root, &config)?;
    let failed = |error| VolumeError::Io { what: "cannot write the config", error };
    let output = Output::create_in(File::from(root).into(), CONFIG.as_ref(), Existing::Keep)?;
    output.file().write_all(&bytes).map_err(failed)?;
    output.commit(Existing::Keep, true)?;
    sync_name(dir)
}

/// Makes sure that the name of a new folder is on the disk, if the folder above it can be opened.
fn sync_name(dir: &Path) -> Result<()> {
    match open(parent(dir), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(above) => Ok(file::sync_folder(&File::from(above))?),
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A volume that this process uses.
pub struct Volume {
    /// The root folder, open for reading.
    pub root: OwnedFd,
    /// What the config says.
    pub config: Config,
    /// Locked descriptors of the folder and of the config. Other processes that want the volume wait until they are
    /// closed. The config alone is not enough: programs that synchronize or restore files replace it by another file,
    /// which is not locked.
    _locks: (OwnedFd, File),
}

impl Volume {
    /// Opens a volume with the keys at hand. No other process uses it while this value lives, but several may read it
    /// at once.
    ///
    /// # Errors
    /// [`VolumeError::Busy`] if somebody else uses it. Those of [`Config::open`], or of the system.
    pub fn open(dir: &Path, opener: &Opener<impl KeySource>, read_only: bool) -> Result<Self> {
        if read_only {
            Self::open_as(dir, opener, OFlags::RDONLY, FlockOperation::NonBlockingLockShared)
        } else {
            Self::open_as(dir, opener, OFlags::RDWR, FlockOperation::NonBlockingLockExclusive)
        }
    }

    /// Opens a volume whose table of versions is to be made anew: nobody else uses it, but the config is only read.
    ///
    /// # Errors
    /// Those of [`Volume::open`].
    pub fn open_to_accept(dir: &Path, opener: &Opener<impl KeySource>) -> Result<Self> {
        Self::open_as(dir, opener, OFlags::RDONLY, FlockOperation::NonBlockingLockExclusive)
    }

    fn open_as(dir: &Path, opener: &Opener<impl KeySource>, access: OFlags, lock: FlockOperation) -> Result<Self> {
        let root = open_root(dir)?;
        let read_only = lock == FlockOperation::NonBlockingLockShared;
        let config = File::from(openat(&root, CONFIG, access | folder::SAFELY, Mode::empty())?);
        match patiently(|| flock(&config, lock)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(VolumeError::Busy),
            // A mount for reading only does without locks if the file system has none.
            Err(_) if read_only => {}
            Err(errno) => return Err(VolumeError::Io { what: "cannot lock the config", error: errno.into() }),
        }
        let folder = openat(&root, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // Some file systems, such as NFS, cannot lock folders.
        if patiently(|| flock(&folder, lock)) == Err(Errno::WOULDBLOCK) {
            return Err(VolumeError::Busy);
        }
        let opened = Config::open(file::regular(&config)?, opener)?;
        Ok(Self { root, config: opened, _locks: (folder, config) })
    }
}

/// Tries again for a while. `fusermount3 -u` returns before the mount has written its last changes.
fn patiently(lock: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    let until = Instant::now() + PATIENCE;
    loop {
        match lock() {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
            locked => return locked,
        }
    }
}

/// Opens the root folder. The path may be a link to it.
fn open_root(dir: &Path) -> Result<OwnedFd> {
    Ok(open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}
