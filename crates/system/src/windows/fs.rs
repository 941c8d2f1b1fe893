//! Files and folders, by the names that rustix has for what Unix offers. Nothing here follows a link where that would not.

mod flags;
mod lacking;
mod rename;
mod set;

pub use super::dir::{Dir, DirEntry};
pub use super::stat::{FileType, Stat};
pub use crate::told::{Birth, FileSystem};
pub use flags::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
pub use lacking::{
    SeekFrom, XattrFlags, fchown, fgetxattr, fgetxattr_query, file_system, flistxattr, flistxattr_query, fremovexattr,
    fsetxattr, punch_hole, readlinkat, reports_lost_writes, reserve, seek, start_write_back, symlinkat, syncfs,
};
pub use rename::{linkat, renameat, renameat_with, unlinkat};
pub use set::{Timespec, Timestamps, UTIME_OMIT, fchmod, fsync, futimens, sync_all, sync_data};

use super::io::{Errno, Result};
use super::names::{checked, checked_new};
use super::nt::{self, How, SHARE_ALL};
use super::{acl, stat};
use crate::parent;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_CREATE, FILE_DIRECTORY_FILE, FILE_OPEN, FILE_OPEN_IF, FILE_OPEN_REPARSE_POINT,
};
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_GENERIC_READ, FILE_GENERIC_WRITE, FILE_LIST_DIRECTORY, FILE_READ_ATTRIBUTES, FILE_SHARE_READ,
    FILE_SHARE_WRITE, FILE_TRAVERSE, FILE_WRITE_DATA, READ_CONTROL,
};

/// Opens a folder only to reach its entries, so it need not be readable.
pub const SEARCH: OFlags = OFlags::PATH;

/// An owner. Windows has none with numbers: see [`crate::process::geteuid`].
#[derive(Clone, Copy, Debug)]
pub struct Uid(());

/// A group.
#[derive(Clone, Copy, Debug)]
pub struct Gid(());

impl Uid {
    /// The owner of a number, whom nothing can be given to.
    #[must_use]
    pub fn from_raw(_number: u32) -> Self {
        Self(())
    }
}

impl Gid {
    /// The group of a number, which nothing can be given to.
    #[must_use]
    pub fn from_raw(_number: u32) -> Self {
        Self(())
    }
}

/// The folder of the process, where paths begin that are not whole.
// SAFETY: the value stands for no handle, which the type allows.
#[expect(unsafe_code)]
pub const CWD: BorrowedHandle<'static> = unsafe { BorrowedHandle::borrow_raw(INVALID_HANDLE_VALUE) };

/// Opens what a path leads to.
///
/// # Errors
/// If it cannot be opened.
pub fn open(path: impl AsRef<Path>, flags: OFlags, mode: Mode) -> Result<OwnedHandle> {
    let path = path.as_ref();
    if flags.contains(OFlags::CREATE) {
        let name = path.file_name().ok_or(Errno::BADNAME)?;
        return openat(open(parent(path), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?, name, flags, mode);
    }
    opened(None, &nt_path(path)?, flags)
}

/// Opens a name in an open folder.
///
/// # Errors
/// If it cannot be opened.
pub fn openat(folder: impl AsHandle, name: impl AsRef<OsStr>, flags: OFlags, mode: Mode) -> Result<OwnedHandle> {
    let (folder, name) = (folder.as_handle(), name.as_ref());
    if !flags.contains(OFlags::CREATE) {
        return match place(folder, name)? {
            Place::Below(name) => opened(Some(folder), &name, flags),
            Place::Whole(name) => opened(None, &name, flags),
        };
    }
    // What is only for its user is so from the start.
    let security = if mode.bits() & 0o077 == 0 { Some(acl::for_user(false)?) } else { None };
    let disposition = if flags.contains(OFlags::EXCL) { FILE_CREATE } else { FILE_OPEN_IF };
    let how =
        How { access: access_of(flags), share: SHARE_ALL, disposition, options: FILE_OPEN_REPARSE_POINT, security };
    let made = nt::create(Some(folder), &checked_new(name)?, how)?;
    if stat::kind(made.as_handle())? == FileType::Symlink { Err(Errno::LOOP) } else { Ok(made) }
}

/// Where a name leads that is relative to an open folder.
enum Place {
    /// To something in it, or to itself.
    Below(Vec<u16>),
    /// Elsewhere, by a whole name of NT.
    Whole(Vec<u16>),
}

/// Only a single name leads into the folder, and `.` and `..` where they lead on Unix. What else looks like a path is refused: it may
/// be the name of a file elsewhere, and must not lead anywhere.
fn place(folder: BorrowedHandle<'_>, name: &OsStr) -> Result<Place> {
    if folder.as_raw_handle() == INVALID_HANDLE_VALUE {
        return Ok(Place::Whole(nt_path(Path::new(name))?));
    }
    match name.to_str() {
        Some(".") => Ok(Place::Below(Vec::new())),
        Some("..") => Ok(Place::Whole(above(folder)?)),
        _ => Ok(Place::Below(checked(name)?)),
    }
}

/// The folder above an open one. NT has no name for it, so its path is asked for; the root is above itself.
fn above(folder: BorrowedHandle<'_>) -> Result<Vec<u16>> {
    let path = std::path::PathBuf::from(OsString::from_wide(&nt::path(folder)?));
    nt_path(path.parent().unwrap_or(&path))
}

/// The whole name that NT has for a path. So it may be longer than 260 characters.
fn nt_path(path: &Path) -> Result<Vec<u16>> {
    let whole = std::path::absolute(path).map_err(|e| Errno::of_std(&e))?;
    let whole: Vec<u16> = whole.as_os_str().encode_wide().collect();
    let wide = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    let strip = |prefix: &str| whole.strip_prefix(&wide(prefix)[..]);
    let rest = strip(r"\\?\").or_else(|| strip(r"\\.\"));
    let (start, rest) = match (rest, strip(r"\\")) {
        (Some(rest), _) => (r"\??\", rest),
        (None, Some(share)) => (r"\??\UNC\", share),
        (None, None) => (r"\??\", &whole[..]),
    };
    Ok([&wide(start), rest].concat())
}

fn access_of(flags: OFlags) -> u32 {
    if flags.contains(OFlags::PATH) {
        FILE_READ_ATTRIBUTES | FILE_TRAVERSE
    } else if flags.contains(OFlags::APPEND) {
        // Without the right to write elsewhere, NT writes at the end, and nothing comes in between.
        FILE_GENERIC_READ | FILE_GENERIC_WRITE & !FILE_WRITE_DATA
    } else if flags.contains(OFlags::RDWR) {
        FILE_GENERIC_READ | FILE_GENERIC_WRITE
    } else if flags.contains(OFlags::DIRECTORY) {
        FILE_LIST_DIRECTORY | FILE_TRAVERSE | FILE_READ_ATTRIBUTES | READ_CONTROL
    } else {
        FILE_GENERIC_READ
    }
}

fn opened(root: Option<BorrowedHandle<'_>>, name: &[u16], flags: OFlags) -> Result<OwnedHandle> {
    let kind = if flags.contains(OFlags::DIRECTORY) { FILE_DIRECTORY_FILE } else { 0 };
    let open = |options| {
        let how = How { access: access_of(flags), share: SHARE_ALL, disposition: FILE_OPEN, options, security: None };
        nt::create(root, name, how)
    };
    if !flags.contains(OFlags::NOFOLLOW) {
        return open(kind);
    }
    let found = open(kind | FILE_OPEN_REPARSE_POINT)?;
    let tags = stat::tags(found.as_handle())?;
    match FileType::of(tags.FileAttributes, tags.ReparseTag) {
        FileType::Symlink => Err(Errno::LOOP),
        // What a program of the system completes, such as a file of a cloud, can be read only if it is opened as usual.
        _ if tags.ReparseTag != 0 => {
            let whole = open(kind)?;
            let is_same = |file: &OwnedHandle| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
            if is_same(&whole)? == is_same(&found)? { Ok(whole) } else { Err(Errno::LOOP) }
        }
        _ => Ok(found),
    }
}

/// Opens once more what is open, to do something else with it.
pub(super) fn reopened(file: BorrowedHandle<'_>, access: u32, share: u32) -> Result<OwnedHandle> {
    let how = How { access, share, disposition: FILE_OPEN, options: FILE_OPEN_REPARSE_POINT, security: None };
    nt::create(Some(file), &[], how)
}

/// What is known of an open file, folder, pipe or device.
///
/// # Errors
/// If the system does not tell it.
pub fn fstat(file: impl AsHandle) -> Result<Stat> {
    stat::of(file.as_handle())
}

/// What is known of what has a name in an open folder.
///
/// # Errors
/// [`Errno::NOENT`] if nothing has it, or another error if the system does not tell it.
pub fn statat(folder: impl AsHandle, name: impl AsRef<OsStr>, flags: AtFlags) -> Result<Stat> {
    let options = if flags.contains(AtFlags::SYMLINK_NOFOLLOW) { FILE_OPEN_REPARSE_POINT } else { 0 };
    let how = How { access: FILE_READ_ATTRIBUTES, share: SHARE_ALL, disposition: FILE_OPEN, options, security: None };
    let folder = folder.as_handle();
    let found = match place(folder, name.as_ref())? {
        Place::Below(name) => nt::create(Some(folder), &name, how)?,
        Place::Whole(name) => nt::create(None, &name, how)?,
    };
    stat::of(found.as_handle())
}

/// Makes a folder. Who may look into it is what the folder above says, whatever the mode is.
///
/// # Errors
/// [`Errno::EXIST`] if something has the name, or another error if it cannot be made.
pub fn mkdirat(folder: impl AsHandle, name: impl AsRef<OsStr>, _mode: Mode) -> Result<()> {
    make_folder(folder.as_handle(), name.as_ref(), None)
}

fn make_folder(above: BorrowedHandle<'_>, name: &OsStr, security: Option<&'static [u64]>) -> Result<()> {
    let how = How {
        access: FILE_READ_ATTRIBUTES,
        share: SHARE_ALL,
        disposition: FILE_CREATE,
        options: FILE_DIRECTORY_FILE,
        security,
    };
    nt::create(Some(above), &checked_new(name)?, how).map(drop)
}

/// Makes a folder that only the user can look into, and so what is made in it.
///
/// # Errors
/// [`Errno::EXIST`] if something has the name, or another error if it cannot be made.
pub fn make_private_folder(folder: impl AsHandle, name: impl AsRef<OsStr>) -> Result<()> {
    make_folder(folder.as_handle(), name.as_ref(), Some(acl::for_user(true)?))
}

/// Locks an open file, until it is closed.
///
/// # Errors
/// [`Errno::WOULDBLOCK`] if somebody else has it locked, or another error if it cannot be locked. Folders cannot:
/// [`lock_folder`].
pub fn flock(file: impl AsHandle, operation: FlockOperation) -> Result<()> {
    nt::lock(file.as_handle(), operation == FlockOperation::LockExclusive)
}

/// Locks an open folder until the returned one is closed, which is the same, opened once more. Windows has no locks of folders, so
/// this one says that nobody else may delete or rename it meanwhile, and asks for that itself.
///
/// # Errors
/// [`Errno::WOULDBLOCK`] if somebody else has it locked and is not waited for, or another error.
pub fn lock_folder(folder: &File, wait: Duration) -> Result<File> {
    const ROUND: Duration = Duration::from_millis(20);
    let access = access_of(OFlags::DIRECTORY) | DELETE;
    let begun = Instant::now();
    loop {
        match reopened(folder.as_handle(), access, FILE_SHARE_READ | FILE_SHARE_WRITE) {
            Err(Errno::BUSY) if begun.elapsed() < wait => thread::sleep(ROUND),
            Err(Errno::BUSY) => return Err(Errno::WOULDBLOCK),
            locked => return locked.map(File::from),
        }
    }
}

/// The birth of what has a name in an open folder. A link is not followed.
pub fn birth(folder: impl AsHandle, name: &OsStr) -> Option<Birth> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| birth_of(&stat))
}

/// The birth of an open file.
pub fn birth_of_open(file: impl AsHandle) -> Option<Birth> {
    fstat(file).ok().map(|stat| birth_of(&stat))
}

fn birth_of(stat: &Stat) -> Birth {
    Birth { inode: stat.st_ino, seconds: stat.st_birthtime, nanoseconds: stat.st_birthtime_nsec as u32 }
}

/// Opens a file that its owner may not write to any more, if `is_fit`: one that is read-only. It is no longer read-only then.
///
/// # Errors
/// [`Errno::ACCESS`] if it is not fit, and those of the system.
pub fn open_without_permission(
    folder: &File,
    name: &str,
    flags: OFlags,
    is_fit: impl FnOnce(&Stat) -> bool,
) -> Result<File> {
    let file = File::from(openat(folder, name, OFlags::PATH | flags, Mode::empty())?);
    if !is_fit(&fstat(&file)?) {
        return Err(Errno::ACCESS);
    }
    set::make_writable(file.as_handle())?;
    reopened(file.as_handle(), access_of(OFlags::RDWR), SHARE_ALL).map(File::from)
}
