//! Temporary files beside their targets, `.phalanx-<hash of the name>.tmp`, each locked while its run lives.
//!
//! If a run finds an unlocked one, its owner was killed. The run removes it, or goes on with it if possible
//! (`resume.rs`). If the file system has no locks, the name also has a random part, and such files are left alone.
//!
//! `.phalanx-<hash of the name>.rekey` is the side file of a change of a header in place (`rekey.rs`), and
//! `.phalanx-<hash of the name>.resume` the record of an output that a later run can go on with (`resume.rs`).

use super::folder;
use crate::{Error, Result};
use phalanx_core::Error as CoreError;
use phalanx_kernels::keccak::sha3_256;
use phalanx_system::files::is_as_made_for_user;
use phalanx_system::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::OsStrExt;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

const PREFIX: &str = ".phalanx-";
const SUFFIX: &str = ".tmp";

/// The temporary files of this process, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<(Arc<File>, String)>> = Mutex::new(Vec::new());

/// Held for reading while a file is begun, or gets or loses its name, so that a signal's clean-up comes before or after
/// these steps, and not in between.
static STEPS: RwLock<()> = RwLock::new(());

/// Prevents the clean-up while the returned guard is held.
pub(crate) fn step() -> RwLockReadGuard<'static, ()> {
    STEPS.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Removes the temporary files of all unfinished outputs, and unfinished folders. None begins or ends until the returned guard is dropped. For
/// a process that is about to end by a signal.
#[must_use]
pub fn remove_unfinished() -> impl Sized {
    let no_step = STEPS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (dir, name) in unfinished().drain(..) {
        let _ = fs::unlinkat(&*dir, &*name, AtFlags::empty());
    }
    folder::remove_all();
    no_step
}

/// Removes the temporary files of all unfinished outputs of a process that cannot continue or allocate memory. A
/// file that gets its name at this moment may stay.
pub fn remove_unfinished_at_once() {
    const TRIES: u32 = 100_000;
    // Milliseconds.
    const MOMENT: u32 = 200;
    ENDING.store(true, Ordering::SeqCst);
    for _ in 0..TRIES {
        let unfinished = match UNFINISHED.try_lock() {
            Ok(unfinished) => unfinished,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        for (dir, name) in &*unfinished {
            let _ = fs::unlinkat(&**dir, &**name, AtFlags::empty());
        }
        break;
    }
    // A file that another thread is making now is not in the list yet. That thread removes it at the end of its step. A step
    // of this thread, or of one that has no memory either, does not end.
    for _ in 0..MOMENT {
        match STEPS.try_write() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// Set when the process ends immediately. A file that is begun afterwards is removed by the thread that began it.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The places in the list that are kept for files which are being made. It changes while the list is locked.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// A place in the list for a file that is not made yet: once it is, there may be no memory for one.
struct Place(());

impl Place {
    /// Keeps a place. Memory is allocated while the list is not locked, because the list is still needed if there is no
    /// memory.
    fn reserve() -> Self {
        loop {
            let list = unfinished();
            if list.len() + RESERVED.load(Ordering::Relaxed) < list.capacity() {
                RESERVED.fetch_add(1, Ordering::Relaxed);
                return Self(());
            }
            let more = 2 * list.capacity() + 16;
            drop(list);
            let mut larger = Vec::with_capacity(more);
            let mut list = unfinished();
            if list.capacity() < larger.capacity() {
                larger.append(&mut list);
                let smaller = std::mem::replace(&mut *list, larger);
                drop(list);
                drop(smaller);
            }
        }
    }

    /// Adds a file to the list.
    fn take(self, entry: (Arc<File>, String)) {
        unfinished().push(entry);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _list = unfinished();
        RESERVED.fetch_sub(1, Ordering::Relaxed);
    }
}

fn unfinished() -> MutexGuard<'static, Vec<(Arc<File>, String)>> {
    UNFINISHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The hash in the names of a target's temporary files. Its length does not depend on the target's.
fn hash(target: &OsStr) -> String {
    let digest = sha3_256(target.as_bytes());
    format!("{:032x}", u128::from_be_bytes(*digest.first_chunk().expect("16 of 32 bytes")))
}

/// The name of the side file of a protected file whose header is changed in place.
pub(crate) fn side_name(target: &OsStr) -> String {
    format!("{PREFIX}{}.rekey", hash(target))
}

/// The name of the record of an output that a later run can go on with.
pub(crate) fn record_name(target: &OsStr) -> String {
    format!("{PREFIX}{}.resume", hash(target))
}

/// Whether only a temporary file, or an input that was about to be deleted, has such a name.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    let hex = |part: &[u8], len| part.len() == len && part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let unused = |end: &[u8]| name.as_bytes().strip_prefix(PREFIX.as_bytes()).and_then(|n| n.strip_suffix(end));
    if [&b".removed"[..], b".link", b".rekey", b".resume"]
        .into_iter()
        .any(|end| unused(end).is_some_and(|core| hex(core, 32)))
    {
        return true;
    }
    let core = name.as_bytes().strip_prefix(PREFIX.as_bytes()).and_then(|n| n.strip_suffix(SUFFIX.as_bytes()));
    core.is_some_and(|core| {
        hex(core, 32) || core.get(32) == Some(&b'-') && hex(&core[..32], 32) && hex(&core[33..], 16)
    })
}

/// An unused name: `.phalanx-<random>.<end>`.
///
/// # Errors
/// [`Error::Random`](phalanx_core::Error::Random) if the system gives no random bytes.
pub fn unused_name(end: &str) -> Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(CoreError::Random)?;
    Ok(format!("{PREFIX}{:032x}.{end}", u128::from_le_bytes(random)))
}

/// A temporary file, open and locked. If it is dropped before it gets its final name, it is removed, unless it has been
/// forgotten.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub dir: Arc<File>,
    pub name: String,
    pub file: File,
    born: OnceLock<Born>,
}

/// What stays the same of a temporary file while it is open, until it takes over an owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Born {
    /// Device and inode.
    pub id: (u64, u64),
    /// User and group.
    pub owner: (u32, u32),
}

impl Temporary {
    fn new(dir: Arc<File>, name: String, file: File) -> Self {
        Self { dir, name, file, born: OnceLock::new() }
    }

    /// Creates the temporary file of a target, for its owner alone. Every run uses the same name, which is short enough
    /// for targets of any length. A leftover of a killed run is removed first.
    pub fn create(dir: Arc<File>, target: &OsStr) -> Result<Self> {
        if let Some(made) = Self::create_locked(&dir, target)? {
            return Ok(made);
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(CoreError::Random)?;
        let name = format!("{PREFIX}{}-{:016x}{SUFFIX}", hash(target), u64::from_le_bytes(random));
        Self::make(&dir, &name).map_err(Error::write)
    }

    /// Creates and locks the temporary file of a target under its usual name. `None` if the file system has no locks.
    fn create_locked(dir: &Arc<File>, target: &OsStr) -> Result<Option<Self>> {
        let name = format!("{PREFIX}{}{SUFFIX}", hash(target));
        // Another run can interfere between any two steps, but hardly every time.
        for _ in 0..16 {
            let made = match Self::make(dir, &name) {
                Err(Errno::EXIST) => {
                    remove_leftover(dir, &name)?;
                    continue;
                }
                made => made.map_err(Error::write)?,
            };
            match fs::flock(&made.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if made.is_named()? => {
                    made.remove_record(target)?;
                    return Ok(Some(made));
                }
                // Another run removed it as a leftover before it was locked here.
                Ok(()) => drop(made.forget()),
                // Another run is removing it as a leftover, and still has it locked.
                Err(Errno::WOULDBLOCK) => {
                    made.forget();
                    return Err(busy());
                }
                Err(_) => return Ok(None),
            }
        }
        Err(busy())
    }

    /// Creates a new file in place of this one, which [`Temporary::resume`] has found but which is of no use.
    pub fn start_over(&mut self, target: &OsStr) -> Result<()> {
        if self.is_named()? {
            fs::unlinkat(&self.dir, &*self.name, AtFlags::empty()).map_err(|e| in_the_way(&self.name, e))?;
        }
        // The list of unfinished files distinguishes files of one name by their folders' descriptors.
        let dir = Arc::new(self.dir.try_clone().map_err(Error::write)?);
        *self = Self::create_locked(&dir, target)?.ok_or(Error::NoLocks)?;
        Ok(())
    }

    /// Opens what an interrupted run has left of a target, or creates it, and returns whether it was there. A file that
    /// was there is not removed when it is dropped. Only a record that names it proves that nobody else has it open.
    /// Its mode does not, because anybody who may rename files in the folder can put another file of the user there.
    pub fn resume(dir: Arc<File>, target: &OsStr) -> Result<(Self, bool)> {
        let name = format!("{PREFIX}{}{SUFFIX}", hash(target));
        for _ in 0..16 {
            let (made, is_begun) =
                match fs::openat(&dir, &*name, OFlags::RDWR | LEFTOVER, Mode::empty()).map(File::from) {
                    Ok(file) => (Self::new(dir.clone(), name.clone(), file), true),
                    Err(Errno::NOENT) => match Self::make(&dir, &name) {
                        Err(Errno::EXIST) => continue,
                        made => (made.map_err(Error::write)?, false),
                    },
                    // It has its final permissions already.
                    Err(Errno::ACCESS) => {
                        remove_leftover(&dir, &name)?;
                        continue;
                    }
                    Err(e) => return Err(in_the_way(&name, e)),
                };
            match fs::flock(&made.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if !made.is_named()? => {
                    made.forget();
                }
                Ok(()) if is_begun && !made.is_as_it_was_made()? => {
                    // It has its final owner and permissions already, or somebody has planted it.
                    fs::unlinkat(&dir, &*name, AtFlags::empty()).map_err(|e| in_the_way(&name, e))?;
                }
                Ok(()) => {
                    if !is_begun {
                        made.remove_record(target)?;
                    }
                    return Ok((made, is_begun));
                }
                Err(Errno::WOULDBLOCK) => {
                    made.forget();
                    return Err(busy());
                }
                Err(_) => return Err(Error::NoLocks),
            }
        }
        Err(busy())
    }

    /// Removes the record of an output that is gone: it says nothing about this one.
    fn remove_record(&self, target: &OsStr) -> Result<()> {
        match fs::unlinkat(&self.dir, record_name(target), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(in_the_way(&record_name(target), e)),
        }
    }

    /// Whether only the user can open it, and it has no metadata of an input yet.
    fn is_as_it_was_made(&self) -> Result<bool> {
        let stat = fs::fstat(&self.file).map_err(Error::write)?;
        let mut names = [0; 4096];
        let has_attributes = match fs::flistxattr(&self.file, &mut names[..]) {
            Ok(len) => names[..len].split(|byte| *byte == 0).any(|name| name.starts_with(b"user.")),
            Err(e) => e == Errno::RANGE,
        };
        Ok(is_own(&stat) && is_as_made_for_user(&self.file, &stat) && !has_attributes)
    }

    /// Creates a file of this name that only its owner can open. It is removed if its run ends before it is forgotten.
    pub fn make(dir: &Arc<File>, name: &str) -> phalanx_system::io::Result<Self> {
        let (dir, name) = (dir.clone(), name.to_owned());
        let entry = (dir.clone(), name.clone());
        let place = Place::reserve();
        let _step = step();
        let file = create(&dir, &name)?;
        place.take(entry);
        if ENDING.load(Ordering::SeqCst) {
            let _ = fs::unlinkat(&dir, &*name, AtFlags::empty());
        }
        Ok(Self::new(dir, name, file))
    }

    /// Whether the name still leads to this file.
    pub fn is_named(&self) -> Result<bool> {
        self.leads_here(OsStr::new(&self.name))
    }

    /// Whether a name in its folder leads to this file.
    pub fn leads_here(&self, name: &OsStr) -> Result<bool> {
        let id = self.born().map_err(Error::write)?.id;
        leads_to(id, &self.dir, name)
    }

    /// What the file was when it was made or opened.
    pub fn born(&self) -> phalanx_system::io::Result<Born> {
        if let Some(born) = self.born.get() {
            return Ok(*born);
        }
        let stat = fs::fstat(&self.file)?;
        let born = Born { id: (stat.st_dev, stat.st_ino), owner: (stat.st_uid, stat.st_gid) };
        Ok(*self.born.get_or_init(|| born))
    }

    /// Records that the name is gone or belongs to another file, so that it is no longer removed.
    pub fn forget(&self) -> bool {
        let mut unfinished = unfinished();
        let found = unfinished.iter().position(|(dir, name)| Arc::ptr_eq(dir, &self.dir) && *name == self.name);
        found.map(|i| unfinished.swap_remove(i)).is_some()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _step = step();
        if self.forget() {
            let _ = fs::unlinkat(&self.dir, &*self.name, AtFlags::empty());
        }
    }
}

/// Whether a name in a folder leads to the file.
pub(crate) fn is_named(file: &File, dir: &File, name: &OsStr) -> Result<bool> {
    let ours = fs::fstat(file).map_err(Error::write)?;
    leads_to((ours.st_dev, ours.st_ino), dir, name)
}

/// Whether a name in a folder leads to the file with this device and inode.
fn leads_to(id: (u64, u64), dir: &File, name: &OsStr) -> Result<bool> {
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == id),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(Error::write(e)),
    }
}

/// Whether it is a regular file of the user with one name.
pub(crate) fn is_own(stat: &fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_nlink == 1
        && stat.st_uid == phalanx_system::process::geteuid().as_raw()
}

/// Creates a file that only its owner can open.
pub(crate) fn create(dir: &File, name: &str) -> phalanx_system::io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)?;
    // Its mode does not limit the list that the folder gave it.
    #[cfg(target_os = "macos")]
    let _ = fs::remove_access_list(&file);
    Ok(file)
}

fn in_the_way(name: &str, e: Errno) -> Error {
    Error::write(io::Error::new(e.kind(), format!("{name} is in the way: {e}")))
}

/// Removes a temporary file unless a run still has it locked.
fn remove_leftover(dir: &File, name: &str) -> Result<()> {
    let in_the_way = |e: Errno| in_the_way(name, e);
    let file = match open_leftover(dir, name) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(in_the_way(e)),
    };
    match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if is_named(&file, dir, OsStr::new(name))? => {
            fs::unlinkat(dir, name, AtFlags::empty()).map_err(in_the_way)
        }
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(busy()),
        Err(e) => Err(in_the_way(e)),
    }
}

/// Removes a temporary file that a killed run left. Returns whether it did: what a run still has locked stays, and what a run
/// with `--resume` can go on with, or what has another name.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_if_left(dir: &File, name: &OsStr) -> Result<bool> {
    let Some(name) = name.to_str().filter(|name| is_temporary(OsStr::new(name))) else { return Ok(false) };
    // Without locks nobody knows whether its run lives: such a name has a random part too, and is longer.
    let Some(core) = name.strip_suffix(SUFFIX).filter(|core| core.len() == PREFIX.len() + 32) else { return Ok(false) };
    match fs::statat(dir, format!("{core}.resume"), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(false),
        Err(Errno::NOENT) => remove_leftover(dir, name).map(|()| true),
        Err(e) => Err(Error::write(e)),
    }
}

/// Set-user-ID, set-group-ID and sticky.
const SPECIAL: u32 = 0o7000;

/// How existing temporary files are opened.
const LEFTOVER: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens an existing temporary file to lock it. It is opened for writing, because NFS gives no lock otherwise.
fn open_leftover(dir: &File, name: &str) -> phalanx_system::io::Result<File> {
    match fs::openat(dir, name, OFlags::RDWR | LEFTOVER, Mode::empty()) {
        // It may have its final permissions already.
        Err(Errno::ACCESS) => {
            // Another file may have this name by now. Outputs get neither further names nor set-user-ID and the like.
            let is_fit = |stat: &fs::Stat| is_own(stat) && stat.st_mode & SPECIAL == 0;
            fs::open_without_permission(dir, name, LEFTOVER, is_fit)
        }
        opened => opened.map(File::from),
    }
}

fn busy() -> Error {
    Error::write(io::Error::new(io::ErrorKind::ResourceBusy, "another run is writing it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_exact_form_are_temporary() {
        let hash = "0123456789abcdef0123456789abcdef";
        for (name, is) in [
            (format!(".phalanx-{hash}.tmp"), true),
            (format!(".phalanx-{hash}-0123456789abcdef.tmp"), true),
            (format!(".phalanx-{hash}-0123456789abcde.tmp"), false),
            (format!(".phalanx-{}.tmp", &hash[1..]), false),
            (".phalanx-notes.tmp".into(), false),
            (format!(".phalanx-{hash}.removed"), true),
            (format!(".phalanx-{hash}.link"), true),
            (format!(".phalanx-{hash}.rekey"), true),
            (".phalanx-notes.rekey".into(), false),
            (format!(".phalanx-{hash}.resume"), true),
            (format!(".phalanx-{hash}.other"), false),
        ] {
            assert_eq!(is_temporary(OsStr::new(&name)), is, "{name}");
        }
    }
}
