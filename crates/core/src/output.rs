//! Files that appear whole under their name, or not at all.
//!
//! A file is written under a temporary name beside its target, `.phalanx-<hash of the name>.tmp`, under a lock, and takes
//! the target's name by one rename. Whoever finds such a file unlocked knows that its run was killed, and removes it.

use crate::{Error, Result};
use phalanx_kernels::keccak::sha3_256;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// A file in the making. Dropped without [`Output::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct Output {
    dir: Arc<File>,
    name: OsString,
    temporary: String,
    file: File,
}

/// What is to become of a file that stands under the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one fails.
    Keep,
    /// The new one takes its place.
    Replace,
}

/// The temporary files of this process, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<(Arc<File>, String)>> = Mutex::new(Vec::new());

impl Output {
    /// Begins a file that will be named `path`, with the permissions `mode` as far as the umask allows.
    ///
    /// The folder is opened once: what happens to its path afterwards does not move the output elsewhere.
    pub fn create(path: &Path, existing: Existing, mode: u32) -> Result<Self> {
        let no_name = || Error::Write(io::Error::new(io::ErrorKind::InvalidInput, "not a file's name"));
        let name = path.file_name().ok_or_else(no_name)?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = fs::open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        Self::create_in(Arc::new(File::from(dir.map_err(write_error)?)), name, existing, mode)
    }

    /// Begins a file that will be named `name` in an opened folder.
    pub fn create_in(dir: Arc<File>, name: &OsStr, existing: Existing, mode: u32) -> Result<Self> {
        if existing == Existing::Keep && is_there(&dir, name)? {
            return Err(Error::Exists);
        }
        let name = name.to_owned();
        let temporary = temporary_name(&name);
        let mut unfinished = unfinished();
        let file = create_locked(&dir, &temporary, mode)?;
        unfinished.push((dir.clone(), temporary.clone()));
        Ok(Self { dir, name, temporary, file })
    }

    /// The file, to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Takes over the permissions (but not set-user-ID and the like), extended attributes and times of a file.
    ///
    /// Attributes that the target's file system does not take, and those of the `security` and `trusted` kinds, are left out.
    pub fn copy_metadata(&self, from: &File) -> Result<()> {
        let meta = from.metadata().map_err(Error::Read)?;
        copy_xattrs(from, &self.file).map_err(write_error)?;
        self.file.set_permissions(Permissions::from_mode(meta.permissions().mode() & 0o777)).map_err(Error::Write)?;
        let mut times = FileTimes::new().set_modified(meta.modified().map_err(Error::Read)?);
        if let Ok(accessed) = meta.accessed() {
            times = times.set_accessed(accessed);
        }
        self.file.set_times(times).map_err(Error::Write)
    }

    /// Gives the file its name. With `sync`, its content is on the disk before and its name after.
    pub fn commit(self, existing: Existing, sync: bool) -> Result<()> {
        if sync {
            self.file.sync_all().map_err(Error::Write)?;
        }
        self.take_name(existing)?;
        if sync {
            self.dir.sync_all().map_err(Error::Write)?;
        }
        Ok(())
    }

    /// Gives many files their names, as [`Output::commit`] does, but waits for the disk twice in all and not for each:
    /// whole file systems are synced, which reports lost writes from Linux 5.8 on.
    pub fn commit_all(outputs: &[Self], existing: Existing, sync: bool) -> Vec<Result<()>> {
        if sync && let Err(e) = sync_file_systems(outputs) {
            return outputs.iter().map(|_| Err(write_error(e))).collect();
        }
        let done = outputs.iter().map(|output| output.take_name(existing)).collect();
        if sync && let Err(e) = sync_file_systems(outputs) {
            return outputs.iter().map(|_| Err(write_error(e))).collect();
        }
        done
    }

    fn take_name(&self, existing: Existing) -> Result<()> {
        // Held until the file is no longer unfinished, so that a signal's clean-up comes before or after, not between.
        let mut unfinished = unfinished();
        self.rename(existing)?;
        forget(&mut unfinished, &self.dir, &self.temporary);
        Ok(())
    }

    fn rename(&self, existing: Existing) -> Result<()> {
        let (from, to) = (&*self.temporary, &*self.name);
        let done = match existing {
            Existing::Replace => fs::renameat(&self.dir, from, &self.dir, to),
            Existing::Keep => match fs::renameat_with(&self.dir, from, &self.dir, to, RenameFlags::NOREPLACE) {
                // A file system without this flag: a hard link does not replace anything either.
                Err(Errno::INVAL | Errno::NOSYS) => fs::linkat(&self.dir, from, &self.dir, to, AtFlags::empty())
                    .and_then(|()| fs::unlinkat(&self.dir, from, AtFlags::empty())),
                done => done,
            },
        };
        done.map_err(|e| if e == Errno::EXIST { Error::Exists } else { write_error(e) })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut unfinished = unfinished();
        if forget(&mut unfinished, &self.dir, &self.temporary) {
            let _ = fs::unlinkat(&self.dir, &*self.temporary, AtFlags::empty());
        }
    }
}

/// Removes the temporary files of all outputs in the making, and lets none begin or end any more until the guard is
/// dropped: for a process that is about to end by a signal.
pub fn remove_unfinished() -> impl Drop {
    struct Guard(#[allow(dead_code)] MutexGuard<'static, Vec<(Arc<File>, String)>>);
    impl Drop for Guard {
        fn drop(&mut self) {}
    }
    let mut unfinished = unfinished();
    for (dir, name) in unfinished.drain(..) {
        let _ = fs::unlinkat(&*dir, &*name, AtFlags::empty());
    }
    Guard(unfinished)
}

fn unfinished() -> MutexGuard<'static, Vec<(Arc<File>, String)>> {
    UNFINISHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes a file off the list; says whether it was there.
fn forget(unfinished: &mut Vec<(Arc<File>, String)>, dir: &Arc<File>, name: &str) -> bool {
    let found = unfinished.iter().position(|(d, n)| Arc::ptr_eq(d, dir) && n == name);
    found.map(|i| unfinished.swap_remove(i)).is_some()
}

fn sync_file_systems(outputs: &[Output]) -> rustix::io::Result<()> {
    let mut synced = Vec::new();
    for output in outputs {
        let device = fs::fstat(&output.file)?.st_dev;
        if !synced.contains(&device) {
            fs::syncfs(&output.file)?;
            synced.push(device);
        }
    }
    Ok(())
}

/// Whether a name is one of [`Output`]'s temporary ones.
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.len() == ".phalanx-.tmp".len() + 32 && name.starts_with(b".phalanx-") && name.ends_with(b".tmp")
}

/// The temporary name for a target: the same in every run, and short enough for targets of any length.
fn temporary_name(name: &OsStr) -> String {
    let hash = sha3_256(name.as_bytes());
    let hex: String = hash[..16].iter().map(|b| format!("{b:02x}")).collect();
    format!(".phalanx-{hex}.tmp")
}

/// Creates and locks the temporary file, in the place of one that a killed run left.
fn create_locked(dir: &File, name: &str, mode: u32) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // Another run can come between any two steps, but hardly each time.
    for _ in 0..16 {
        let file = match fs::openat(dir, name, flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(mode)) {
            Ok(file) => File::from(file),
            Err(Errno::EXIST) => {
                match fs::openat(dir, name, flags, Mode::empty()) {
                    Ok(left) if lock(&left, dir, name)? => {
                        fs::unlinkat(dir, name, AtFlags::empty()).map_err(write_error)?
                    }
                    Ok(_) | Err(Errno::NOENT) => {}
                    Err(e) => return Err(write_error(e)),
                }
                continue;
            }
            Err(e) => return Err(write_error(e)),
        };
        if lock(&file, dir, name)? {
            return Ok(file);
        }
    }
    Err(Error::Write(io::Error::new(io::ErrorKind::ResourceBusy, "another run is writing it")))
}

/// Locks the file; `false` where another run got hold of it, or removed it meanwhile.
fn lock(file: &impl std::os::fd::AsFd, dir: &File, name: &str) -> Result<bool> {
    match fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(Error::Write(io::Error::new(io::ErrorKind::ResourceBusy, "another run is writing it")));
        }
        // A file system without locks: two runs at the same target are then the user's affair.
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => {}
        Err(e) => return Err(write_error(e)),
    }
    let ours = fs::fstat(file).map_err(write_error)?;
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(write_error(e)),
    }
}

fn is_there(dir: &File, name: &OsStr) -> Result<bool> {
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(write_error(e)),
    }
}

fn copy_xattrs(from: &File, to: &File) -> rustix::io::Result<()> {
    let mut names = match fs::flistxattr_query(from) {
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(()),
        len => vec![0; len?],
    };
    let len = fs::flistxattr(from, &mut names[..])?;
    names.truncate(len);
    for name in names.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        if name.starts_with(b"security.") || name.starts_with(b"trusted.") {
            continue;
        }
        let mut value = vec![0; fs::fgetxattr_query(from, name)?];
        let len = fs::fgetxattr(from, name, &mut value[..])?;
        value.truncate(len);
        match fs::fsetxattr(to, name, &value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn write_error(e: Errno) -> Error {
    Error::Write(e.into())
}
