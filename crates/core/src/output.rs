//! Files that appear whole under their name, or not at all.
//!
//! A file is written under a temporary name beside its target, `.phalanx-<hash of the name>.tmp`, under a lock, and takes
//! the target's name by one rename. Whoever finds such a file unlocked knows that its run was killed, and removes it.
//! Where the file system has no locks, the name has a random part too, and such files are left alone.

use crate::{Error, Result};
use phalanx_kernels::keccak::sha3_256;
use rustix::fs::{self, AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};

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

/// Shared while a file begins or takes its name, so that a signal's clean-up comes before or after, and not between.
static STEPS: RwLock<()> = RwLock::new(());

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
        check_target(&dir, name, existing)?;
        let _step = step();
        let (temporary, file) = create_temporary(&dir, name, mode)?;
        unfinished().push((dir.clone(), temporary.clone()));
        Ok(Self { dir, name: name.to_owned(), temporary, file })
    }

    /// The file, to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Takes over the permissions (but not set-user-ID and the like), extended attributes and times of a file.
    ///
    /// The owner and group too, where the process may; permissions of a group that cannot be set are dropped.
    /// Attributes that the target does not take, and those of the `security` and `trusted` kinds, are left out.
    pub fn copy_metadata(&self, from: &File) -> Result<()> {
        let meta = from.metadata().map_err(Error::Read)?;
        copy_xattrs(from, &self.file);
        let mode = meta.mode() & copy_owner(&meta, &self.file);
        self.file.set_permissions(Permissions::from_mode(mode)).map_err(Error::Write)?;
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
        if sync { sync_folder(&self.dir) } else { Ok(()) }
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
        let _step = step();
        if !is_named(&self.file, &self.dir, &self.temporary)? {
            let taken = io::Error::new(io::ErrorKind::ResourceBusy, "another run removed the temporary file");
            return Err(Error::Write(taken));
        }
        self.rename(existing)?;
        forget(&self.dir, &self.temporary);
        Ok(())
    }

    fn rename(&self, existing: Existing) -> Result<()> {
        let (from, to) = (&*self.temporary, &*self.name);
        let done = match existing {
            Existing::Replace => fs::renameat(&self.dir, from, &self.dir, to),
            Existing::Keep => match fs::renameat_with(&self.dir, from, &self.dir, to, RenameFlags::NOREPLACE) {
                // A file system without this flag: a hard link does not replace anything either.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    match fs::linkat(&self.dir, from, &self.dir, to, AtFlags::empty()) {
                        Ok(()) => fs::unlinkat(&self.dir, from, AtFlags::empty()),
                        // Nor has it hard links: a look before is all that can be had.
                        Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP) => {
                            check_target(&self.dir, to, existing)?;
                            fs::renameat(&self.dir, from, &self.dir, to)
                        }
                        failed => failed,
                    }
                }
                done => done,
            },
        };
        done.map_err(|e| if e == Errno::EXIST { Error::Exists } else { write_error(e) })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _step = step();
        if forget(&self.dir, &self.temporary) {
            let _ = fs::unlinkat(&self.dir, &*self.temporary, AtFlags::empty());
        }
    }
}

/// Removes the temporary files of all outputs in the making. None begins or ends any more until what is returned is
/// dropped: for a process that is about to end by a signal.
#[must_use]
pub fn remove_unfinished() -> impl Sized {
    let no_step = STEPS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (dir, name) in unfinished().drain(..) {
        let _ = fs::unlinkat(&*dir, &*name, AtFlags::empty());
    }
    no_step
}

fn step() -> RwLockReadGuard<'static, ()> {
    STEPS.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn unfinished() -> MutexGuard<'static, Vec<(Arc<File>, String)>> {
    UNFINISHED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes a file off the list; says whether it was there.
fn forget(dir: &Arc<File>, name: &str) -> bool {
    let mut unfinished = unfinished();
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
    name.as_bytes().starts_with(PREFIX.as_bytes()) && name.as_bytes().ends_with(SUFFIX.as_bytes())
}

const PREFIX: &str = ".phalanx-";
const SUFFIX: &str = ".tmp";

/// Creates the temporary file for a target: under the same name in every run, which is short enough for targets of any
/// length, and locked. What a killed run left under it is removed first.
fn create_temporary(dir: &File, target: &OsStr, mode: u32) -> Result<(String, File)> {
    let hash: String = sha3_256(target.as_bytes())[..16].iter().map(|b| format!("{b:02x}")).collect();
    let name = format!("{PREFIX}{hash}{SUFFIX}");
    // Another run can come between any two steps, but hardly each time.
    for _ in 0..16 {
        let file = match create_new(dir, &name, mode) {
            Err(Errno::EXIST) => {
                remove_leftover(dir, &name)?;
                continue;
            }
            file => file.map_err(write_error)?,
        };
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_named(&file, dir, &name)? => return Ok((name, file)),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(busy()),
            Err(_) => {
                fs::unlinkat(dir, &*name, AtFlags::empty()).map_err(write_error)?;
                let mut random = [0; 8];
                getrandom::fill(&mut random).map_err(Error::Random)?;
                let name = format!("{PREFIX}{hash}-{:016x}{SUFFIX}", u64::from_le_bytes(random));
                let file = create_new(dir, &name, mode).map_err(write_error)?;
                return Ok((name, file));
            }
        }
    }
    Err(busy())
}

fn create_new(dir: &File, name: &str, mode: u32) -> rustix::io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(dir, name, flags, Mode::from_raw_mode(mode)).map(File::from)
}

/// Removes a temporary file unless a run still has it locked.
fn remove_leftover(dir: &File, name: &str) -> Result<()> {
    let open =
        || fs::openat(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let opened = match open() {
        // It may have got its final permissions already.
        Err(Errno::ACCESS) => fs::chmodat(dir, name, Mode::RUSR | Mode::WUSR, AtFlags::empty()).and_then(|()| open()),
        opened => opened,
    };
    let in_the_way = |e: Errno| Error::Write(io::Error::new(e.kind(), format!("{name} is in the way: {e}")));
    let file = match opened {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(in_the_way(e)),
    };
    match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if is_named(&file, dir, name)? => fs::unlinkat(dir, name, AtFlags::empty()).map_err(in_the_way),
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(busy()),
        Err(e) => Err(in_the_way(e)),
    }
}

fn busy() -> Error {
    Error::Write(io::Error::new(io::ErrorKind::ResourceBusy, "another run is writing it"))
}

/// Whether the name still stands for the file.
fn is_named(file: &File, dir: &File, name: &str) -> Result<bool> {
    let ours = fs::fstat(file).map_err(write_error)?;
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(write_error(e)),
    }
}

/// Refuses targets that may not be replaced: all that exist, or else all that are no files (folders, devices, pipes).
fn check_target(dir: &File, name: &OsStr, existing: Existing) -> Result<()> {
    let kind = |flags| match fs::statat(dir, name, flags) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(write_error(e)),
    };
    let itself = kind(AtFlags::SYMLINK_NOFOLLOW)?;
    let refuse = |why| Err(Error::Write(io::Error::new(io::ErrorKind::InvalidInput, why)));
    match if itself == Some(FileType::Symlink) { kind(AtFlags::empty()).unwrap_or(None) } else { itself } {
        Some(FileType::Directory) => refuse("it is a folder"),
        Some(kind) if kind != FileType::RegularFile => refuse("it is not a regular file (use - for standard output)"),
        _ if itself.is_some() && existing == Existing::Keep => Err(Error::Exists),
        _ => Ok(()),
    }
}

/// Syncs a folder, where its file system can.
fn sync_folder(dir: &File) -> Result<()> {
    match fs::fsync(dir) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done.map_err(write_error),
    }
}

/// Gives the file its owner and group; returns which permissions may then be taken over.
fn copy_owner(meta: &Metadata, to: &File) -> u32 {
    const ALL: u32 = 0o777;
    const NOT_OF_GROUP: u32 = 0o707;
    let Ok(own) = fs::fstat(to) else { return NOT_OF_GROUP };
    let group = Gid::from_raw(meta.gid());
    let as_was = (own.st_uid, own.st_gid) == (meta.uid(), meta.gid());
    let given = as_was
        || fs::fchown(to, Some(Uid::from_raw(meta.uid())), Some(group)).is_ok()
        || own.st_gid == meta.gid()
        || fs::fchown(to, None, Some(group)).is_ok();
    if given { ALL } else { NOT_OF_GROUP }
}

/// Copies what can be copied.
fn copy_xattrs(from: &File, to: &File) {
    const ACL: &str = "system.posix_acl_access";
    let list = || {
        let mut names = vec![0; fs::flistxattr_query(from)?];
        if names.is_empty() {
            return Ok(names);
        }
        let len = fs::flistxattr(from, &mut names[..])?;
        names.truncate(len);
        Ok::<_, Errno>(names)
    };
    let names = list().unwrap_or_default();
    let names = || names.split(|b| *b == 0).filter(|name| !name.is_empty());
    if !names().any(|name| name == ACL.as_bytes()) && fs::fgetxattr_query(to, ACL).is_ok() {
        // One that the folder gave to its new file would let others in whom the input keeps out.
        let _ = fs::fremovexattr(to, ACL);
    }
    for name in names().filter(|name| !name.starts_with(b"security.") && !name.starts_with(b"trusted.")) {
        let copy = || {
            let mut value = vec![0; fs::fgetxattr_query(from, name)?];
            let len = fs::fgetxattr(from, name, &mut value[..])?;
            fs::fsetxattr(to, name, &value[..len], XattrFlags::empty())
        };
        let _ = copy();
    }
}

fn write_error(e: Errno) -> Error {
    Error::Write(e.into())
}
