//! Counting a tree's files and bytes while they are worked on, so that the time left can be estimated.

use super::meter::Meter;
use phalanx_system::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use phalanx_system::os::ffi::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Deeper folders are not counted, because each level keeps one open.
const DEEPEST: usize = 64;

/// Adds all files for which `counts` is true to the meter, until the work is over.
pub fn run(root: &Arc<File>, counts: &dyn Fn(&OsStr) -> bool, meter: &dyn Meter, over: &AtomicBool) {
    let mut levels: Vec<(Arc<File>, Vec<OsString>)> = Vec::new();
    levels.push((root.clone(), folder(root, counts, meter)));
    while let Some((parent, left)) = levels.last_mut() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let Some(name) = left.pop() else {
            levels.pop();
            continue;
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The workers report what cannot be opened.
        if let Ok(opened) = fs::openat(&*parent, &name, flags, Mode::empty())
            && levels.len() < DEEPEST
        {
            let opened = Arc::new(File::from(opened));
            let names = folder(&opened, counts, meter);
            levels.push((opened, names));
        }
    }
    meter.expected_all();
}

/// Counts the files of one folder, and returns the names of the folders in it.
fn folder(opened: &File, counts: &dyn Fn(&OsStr) -> bool, meter: &dyn Meter) -> Vec<OsString> {
    let (mut files, mut bytes, mut folders) = (0, 0, Vec::new());
    for entry in Dir::read_from(opened).into_iter().flatten().flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        match entry.file_type() {
            FileType::Directory if name != "." && name != ".." => folders.push(name.to_owned()),
            FileType::RegularFile if counts(name) => {
                files += 1;
                bytes += fs::statat(opened, name, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_size as u64);
            }
            _ => {}
        }
    }
    meter.expect(files, bytes);
    folders
}
