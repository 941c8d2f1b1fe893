//! A walk through all folders of a volume. It needs only a few descriptors, however deep the folders are nested, since
//! an attacker may decide that.

use crate::error::{Result, VolumeError};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat, chmod, fchmod, fstat, open, openat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The function that visits an entry, with its folder, its name, and its inode as the folder has it.
pub(crate) type Visit<'v> = dyn FnMut(&OwnedFd, &CStr, u64) -> Result<ControlFlow<()>> + 'v;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Visits everything in a folder and the folders in it, except folders and links, through descriptors. If a folder was
/// left out, returns why.
pub(crate) fn walk(root: &OwnedFd, visit: &mut Visit<'_>) -> Result<Option<Errno>> {
    let here = root.as_fd().try_clone_to_owned().map_err(|e| VolumeError::io("cannot walk the volume", e))?;
    let stat = fstat(&here).map_err(failed)?;
    let mut walk = Walk { root, here, device: stat.st_dev, path: Vec::new(), skipped: None };
    if walk.enter(&stat, None, visit)?.is_break() {
        return Ok(None);
    }
    while let Some(folder) = walk.path.last_mut() {
        let done = match folder.left.pop() {
            Some(next) => walk.go_down(&next, visit)?,
            None => {
                walk.go_up().map_err(failed)?;
                ControlFlow::Continue(())
            }
        };
        if done.is_break() {
            return Ok(None);
        }
    }
    Ok(walk.skipped)
}

fn failed(errno: Errno) -> VolumeError {
    VolumeError::io("cannot walk the volume", errno)
}

/// A running walk. Only the current folder is open. It goes up by `..`.
struct Walk<'r> {
    root: &'r OwnedFd,
    here: OwnedFd,
    device: u64,
    /// The folders from the root to this one.
    path: Vec<Folder>,
    skipped: Option<Errno>,
}

/// A folder that is being walked.
struct Folder {
    inode: u64,
    /// The permissions that it gets back at the end.
    mode: Option<Mode>,
    /// The entries that are or may be folders and are still to be walked.
    left: Vec<Inner>,
}

struct Inner {
    name: CString,
    inode: u64,
    kind: FileType,
}

impl Walk<'_> {
    /// Reads the current folder, visits what is in it, and records the folders.
    fn enter(&mut self, stat: &Stat, mode: Option<Mode>, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
        self.path.push(Folder { inode: stat.st_ino, mode, left: Vec::new() });
        let mut left = Vec::new();
        for entry in Dir::read_from(&self.here).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            match entry.file_type() {
                _ if matches!(name.to_bytes(), b"." | b"..") => {}
                kind @ (FileType::Directory | FileType::Unknown) => {
                    left.push(Inner { name: name.to_owned(), inode: entry.ino(), kind });
                }
                FileType::Symlink => {}
                _ => {
                    if visit(&self.here, name, entry.ino())?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        if let Some(folder) = self.path.last_mut() {
            folder.left = left;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn go_down(&mut self, to: &Inner, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
        match open_folder(&self.here, &to.name) {
            Ok((folder, mode)) => {
                let stat = fstat(&folder).map_err(failed)?;
                // Another file system may be mounted there.
                if stat.st_dev != self.device {
                    give_back(&folder, mode);
                    return Ok(ControlFlow::Continue(()));
                }
                self.here = folder;
                self.enter(&stat, mode, visit)
            }
            Err(Errno::NOTDIR) if to.kind == FileType::Unknown => visit(&self.here, &to.name, to.inode),
            // Removed meanwhile.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(ControlFlow::Continue(())),
            // This user does not own the folder. But the killed run may have been root's.
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                self.skipped = Some(errno);
                Ok(ControlFlow::Continue(()))
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Leaves a folder for the one above. It must be the one from which the walk came.
    fn go_up(&mut self) -> Result<(), Errno> {
        let Some(left) = self.path.pop() else { return Ok(()) };
        let above = match self.path.as_slice() {
            [] => None,
            [_] => Some(openat(self.root, c".", FOLDER, Mode::empty())),
            [.., above] => {
                let opened = openat(&self.here, c"..", FOLDER, Mode::empty()).and_then(|fd| {
                    let stat = fstat(&fd)?;
                    let is_it = (stat.st_dev, stat.st_ino) == (self.device, above.inode);
                    if is_it { Ok(fd) } else { Err(Errno::STALE) }
                });
                Some(opened)
            }
        };
        give_back(&self.here, left.mode);
        if let Some(above) = above {
            self.here = above?;
        }
        Ok(())
    }
}

/// A walk that ends early restores the permissions of all folders on its path.
impl Drop for Walk<'_> {
    fn drop(&mut self) {
        while self.path.iter().any(|folder| folder.mode.is_some()) && self.go_up().is_ok() {}
    }
}

/// Restores the permissions of a folder. If that fails, its owner has more rights than before, but nobody else has.
fn give_back(folder: &OwnedFd, mode: Option<Mode>) {
    if let Some(mode) = mode {
        let _ = fchmod(folder, mode);
    }
}

/// Opens a folder, even if its permissions forbid that to its owner. They are then changed for a while, and the old
/// ones are returned.
fn open_folder(dir: &OwnedFd, name: &CStr) -> Result<(OwnedFd, Option<Mode>), Errno> {
    match openat(dir, name, FOLDER, Mode::empty()) {
        // Reading a folder is not enough, since its entries have to be opened.
        Ok(fd) => match openat(&fd, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::ACCESS) => {}
            _ => return Ok((fd, None)),
        },
        Err(Errno::ACCESS) => {}
        Err(e) => return Err(e),
    }
    let path = openat(dir, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mode = Mode::from_raw_mode(fstat(&path)?.st_mode);
    let again = format!("/proc/self/fd/{}", path.as_raw_fd());
    chmod(&*again, mode | Mode::RWXU)?;
    match open(&*again, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok((fd, Some(mode))),
        Err(e) => {
            chmod(&*again, mode)?;
            Err(e)
        }
    }
}
