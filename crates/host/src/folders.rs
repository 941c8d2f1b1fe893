//! Opening and making single folders, without following links.

use crate::file::{Carry, Existing, Obstacle, protected_name, sync_folder};
use crate::lines::shown;
use crate::{Error, Result};
use phalanx_core::volume::CONFIG;
use phalanx_system::files::{create_private_folder, open_folder, stat_within};
use phalanx_system::fs::{self, AtFlags, Dir, FileSystem, FileType, Mode, OFlags};
use phalanx_system::io::Errno;
use phalanx_system::os::fd::AsFd;
use phalanx_system::os::ffi::OsStringExt;
pub use phalanx_system::parent;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

/// How a folder is opened to list it.
pub const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// How a folder is opened to find entries in it. It need not be readable.
pub const SEARCHED: OFlags = fs::SEARCH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The permissions of group and others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Makes a folder of a mirror. An existing one may be used instead, unless the run has made it under another spelling
/// or its owner is not trusted.
pub fn make(parent: &File, name: &OsStr, existing: Existing<'_>, original: &File, carry: Carry) -> Result<File> {
    make_or_open(parent, name, existing, original, carry).map(|(folder, _)| folder)
}

/// Makes a folder of a mirror or uses an existing one, as [`make`] does. Returns also whether it is new.
pub fn make_or_open(
    parent: &File,
    name: &OsStr,
    existing: Existing<'_>,
    original: &File,
    carry: Carry,
) -> Result<(File, bool)> {
    let is_new = match (fs::mkdirat(parent, name, Mode::RWXU), existing) {
        (Err(Errno::EXIST), Existing::Replace(made)) if made.is_alias(parent, name)? => return Err(Error::OwnOutput),
        (Err(Errno::EXIST), Existing::Replace(_)) => false,
        (Err(Errno::EXIST), Existing::Keep) => return Err(in_place_of(parent, name)),
        (made, _) => made.map(|()| true).map_err(Error::write)?,
    };
    let folder = fs::openat(parent, name, FOLDER, Mode::empty()).map_err(|e| {
        if is_new {
            let _ = fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
        match e {
            Errno::LOOP | Errno::NOTDIR => Error::write(Obstacle::FileInTheWay),
            e => Error::write(e),
        }
    })?;
    if is_new && !is_ours(parent, &folder).map_err(Error::write)? {
        return Err(Error::write(std::io::Error::other("somebody put another folder in its place")));
    }
    if !is_new && !is_trusted(parent, &folder, original, carry).map_err(Error::write)? {
        return Err(Error::write(std::io::Error::other("the folder in its place belongs to another user")));
    }
    Ok((folder.into(), is_new))
}

/// The error for what is in the place of a folder that is to be made.
fn in_place_of(parent: &File, name: &OsStr) -> Error {
    match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            Error::write(Obstacle::FolderExists)
        }
        Ok(_) => Error::write(Obstacle::FileInTheWay),
        Err(e) => Error::write(e),
    }
}

/// Whether a folder is a volume: it holds a config. Nothing has been checked.
pub fn is_volume(at: impl AsFd, folder: &Path) -> bool {
    stat_within(at, folder, CONFIG).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// An entry of a mirror whose name collides with that of an entry of the tree of another kind: a folder or link `a`
/// beside a file `a.phx`. Both would be unprotected to the name `a`.
pub fn rival(mirror: &File, name: &OsStr, is_file: bool) -> Result<Option<OsString>> {
    let rival = if is_file { name.to_owned() } else { protected_name(name) };
    let kind = match fs::statat(mirror, &rival, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
        // The name would be too long for a file as well.
        Err(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(None),
        Err(e) => return Err(Error::write(e)),
    };
    // Volumes are not unprotected with a tree.
    let is_rival = match kind {
        FileType::Directory => is_file && !is_volume(mirror, Path::new(&rival)),
        FileType::Symlink => is_file,
        FileType::RegularFile => !is_file,
        _ => false,
    };
    Ok(is_rival.then_some(rival))
}

/// Refuses an entry of a tree that had another kind when its mirror was written. The old one stays in the mirror, and
/// the two could not both be unprotected.
pub fn check_kind(mirror: &File, name: &OsStr, is_file: bool) -> Result<()> {
    let Some(rival) = rival(mirror, name, is_file)? else { return Ok(()) };
    Err(Error::write(io::Error::other(Rival(shown(Path::new(&rival))))))
}

/// What lies in a mirror and is in the way of another entry.
#[derive(Debug, thiserror::Error)]
#[error("{0} {SAME_NAME}")]
struct Rival(String);

/// Whether an error is that of [`check_kind`].
pub fn is_rival(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|e| e.is::<Rival>())
}

/// Why an entry of a mirror is in the way of another one.
pub const SAME_NAME: &str = "is in its way: both would be unprotected to the same name";

/// What to do about it.
pub const RIVAL_HINT: &str = "delete the older one, or write a new mirror";

/// Why a file is left out if its output would have the name of a temporary file: a later run would remove it.
pub const RESERVED_NAME: &str = "the name of its output is one of a temporary file: left out";

/// Whether a folder that was just made is the one that was opened. If others may rename it, it must belong to this user
/// and be closed to them. (On a file system without permissions all folders look the same.)
fn is_ours(parent: &File, folder: &impl AsFd) -> phalanx_system::io::Result<bool> {
    const STICKY: u32 = 0o1000;
    let user = phalanx_system::process::geteuid().as_raw();
    let (above, stat) = (fs::fstat(parent)?, fs::fstat(folder)?);
    let others_rename = above.st_uid != user || above.st_mode & OTHERS_WRITE != 0 && above.st_mode & STICKY == 0;
    let looks_like_all = || {
        let kind = fs::file_system(parent);
        stat.st_mode & 0o777 == above.st_mode & 0o777 && kind == Ok(FileSystem::WithoutPermissions)
    };
    Ok(!others_rename || stat.st_uid == user && (stat.st_mode & 0o077 == 0 || looks_like_all()))
}

/// Whether an existing folder may be written into. Its owner can read what is written there, whatever permissions it
/// gets. So it must belong to this user, to root or to the owner that it takes over. Root also accepts a folder that
/// nobody else can have put there: one of the owner of the folder above, and any in a folder of root that others cannot
/// write to.
pub fn is_trusted(
    parent: &File,
    folder: &impl AsFd,
    original: &File,
    carry: Carry,
) -> phalanx_system::io::Result<bool> {
    let user = phalanx_system::process::geteuid().as_raw();
    let (above, owner) = (fs::fstat(parent)?, fs::fstat(folder)?.st_uid);
    let put_by_owner = owner == above.st_uid || above.st_uid == 0 && above.st_mode & OTHERS_WRITE == 0;
    Ok(owner == user
        || owner == 0
        || carry == Carry::All && owner == fs::fstat(original)?.st_uid
        || user == 0 && put_by_owner)
}

/// The folder that contains a path's last name, and the name. Without a last name: the path itself and `.`.
pub fn open_parent(path: &Path) -> phalanx_system::io::Result<(File, OsString)> {
    let (folder, name) = match path.file_name() {
        Some(name) => (parent(path), name),
        None => (path, OsStr::new(".")),
    };
    let folder = fs::open(folder, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?;
    Ok((folder.into(), name.to_owned()))
}

/// The folder and the name of an input that is to be deleted, as [`open_parent`] gives them. Its path may not contain
/// its true name.
pub fn true_parent(path: &Path) -> Option<(File, OsString)> {
    match path.file_name() {
        Some(_) => open_parent(path).ok(),
        None => open_parent(&path.canonicalize().ok()?).ok(),
    }
}

/// Whether a folder is the one with the id `outer`, or lies within it.
pub fn is_within(inner: &impl AsFd, outer: (u64, u64)) -> phalanx_system::io::Result<bool> {
    let mut folder = fs::openat(inner, ".", SEARCHED, Mode::empty())?;
    loop {
        let here = id(&folder)?;
        if here == outer {
            return Ok(true);
        }
        folder = fs::openat(&folder, "..", SEARCHED, Mode::empty())?;
        if id(&folder)? == here {
            return Ok(false);
        }
    }
}

/// Opens a folder in a tree by its path from the root on. Links are not followed.
pub fn open_within(root: &File, path: &Path) -> phalanx_system::io::Result<File> {
    let mut folder = File::from(fs::openat(root, ".", FOLDER, Mode::empty())?);
    for name in path {
        folder = fs::openat(&folder, name, FOLDER, Mode::empty())?.into();
    }
    Ok(folder)
}

/// Makes a folder that only the user can look into, and those above it. The names of new ones are on the disk afterwards: what is in
/// it must not be lost with it.
///
/// # Errors
/// If one cannot be made or synced.
pub fn make_private(path: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    create_private_folder(path, true)?;
    for folder in missing {
        match open_folder(parent(folder)) {
            Ok(above) => sync_folder(&above)?,
            // It may be one that may be changed and not read.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// What an entry of a folder is. Links are not followed.
pub fn kind_of(folder: &File, name: &OsStr) -> phalanx_system::io::Result<FileType> {
    let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// The device and inode of an open file.
pub fn id(file: &impl AsFd) -> phalanx_system::io::Result<(u64, u64)> {
    fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino))
}

/// The name of a kind of entry that cannot be worked on.
pub fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile | FileType::Symlink => "left by a run that was killed",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "not a file, folder or link",
    }
}

/// The entries of a folder, in order of name.
pub fn entries(folder: &File) -> Result<Vec<(OsString, FileType)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder).map_err(Error::read)? {
        let entry = entry.map_err(Error::read)?;
        let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::read)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        entries.push((name, kind));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}
