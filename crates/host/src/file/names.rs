//! Names in a folder, and the files that they lead to.

use crate::{Error, Result};
use phalanx_system::fs::{self, AtFlags, RenameFlags};
use phalanx_system::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::Mutex;

/// Renames within a folder, without replacing anything.
pub(crate) fn rename_new(dir: &File, from: &OsStr, to: &OsStr) -> phalanx_system::io::Result<()> {
    /// Held by threads that can only check before they rename.
    static LOOKING: Mutex<()> = Mutex::new(());
    match fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // On a file system without this flag, a hard link does not replace anything either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::linkat(dir, from, dir, to, AtFlags::empty()) {
            Ok(()) => fs::unlinkat(dir, from, AtFlags::empty()),
            // It has no hard links either. The only way left is to check first.
            Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP) => {
                let _alone = LOOKING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                match fs::statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(Errno::EXIST),
                    Err(Errno::NOENT) => fs::renameat(dir, from, dir, to),
                    Err(e) => Err(e),
                }
            }
            failed => failed,
        },
        done => done,
    }
}

/// The device and inode of an open file or folder.
pub(crate) fn id(file: &File) -> Result<(u64, u64)> {
    let stat = fs::fstat(file).map_err(Error::write)?;
    Ok((stat.st_dev, stat.st_ino))
}
