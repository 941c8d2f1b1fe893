//! What is seen of volumes without opening them.

use crate::folders;
use phalanx_system::fs::{AtFlags, CWD, FileType, Stat, statat};
use std::path::Path;

/// The file that holds the id of a folder of a volume.
pub const FOLDER: &str = "phalanx.folder";

/// The length of a record in it, in bytes. It has one record, or two while the folder is being renamed.
pub const RECORD_LEN: usize = 32;

/// Whether a folder is a volume: it holds a config. Nothing has been checked.
#[must_use]
pub fn is_volume(dir: &Path) -> bool {
    folders::is_volume(CWD, dir)
}

/// Whether a path leads to a folder of a volume, or its root: it holds the file with a folder's id. Nothing has been
/// checked.
#[must_use]
pub fn is_folder_of_volume(dir: &Path) -> bool {
    let is_record = |stat: Stat| {
        let lengths = [RECORD_LEN as i64, 2 * RECORD_LEN as i64];
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && lengths.contains(&stat.st_size)
    };
    statat(CWD, dir.join(FOLDER), AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_record)
}
