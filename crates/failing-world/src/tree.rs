//! What is in a folder: taken into memory, and put back.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The inode that it had.
    pub ino: u64,
    pub mode: u32,
    /// The time of modification.
    pub time: (i64, i64),
    pub kind: Entry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Folder,
    File(Vec<u8>),
    Link(Vec<u8>),
}

/// All entries by their paths. A folder comes before what is in it.
pub type Tree = BTreeMap<PathBuf, Node>;

/// Takes a folder into memory.
pub fn take(root: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    take_into(root, Path::new(""), &mut tree)?;
    Ok(tree)
}

fn take_into(root: &Path, under: &Path, tree: &mut Tree) -> io::Result<()> {
    for entry in fs::read_dir(root.join(under))? {
        let entry = entry?;
        let path = under.join(entry.file_name());
        let full = root.join(&path);
        let meta = entry.metadata()?;
        let kind = if meta.is_dir() {
            Entry::Folder
        } else if meta.is_symlink() {
            Entry::Link(fs::read_link(&full)?.into_os_string().into_vec())
        } else {
            Entry::File(fs::read(&full)?)
        };
        let is_folder = kind == Entry::Folder;
        let time = (meta.mtime(), meta.mtime_nsec());
        tree.insert(path.clone(), Node { ino: meta.ino(), mode: meta.mode() & 0o7777, time, kind });
        if is_folder {
            take_into(root, &path, tree)?;
        }
    }
    Ok(())
}

/// Makes a new folder that holds this tree. Hard links become files of their own.
pub fn put(root: &Path, tree: &Tree) -> io::Result<()> {
    let _ = fs::remove_dir_all(root);
    fs::create_dir(root)?;
    for (path, node) in tree {
        let full = root.join(path);
        match &node.kind {
            Entry::Folder => fs::create_dir(&full)?,
            Entry::File(bytes) => fs::write(&full, bytes)?,
            Entry::Link(target) => symlink(PathBuf::from(std::ffi::OsString::from_vec(target.clone())), &full)?,
        }
        if !matches!(node.kind, Entry::Link(_)) {
            fs::set_permissions(&full, Permissions::from_mode(node.mode))?;
        }
        if matches!(node.kind, Entry::File(_)) {
            set_time(&full, node.time)?;
        }
    }
    Ok(())
}

/// Sets the time of modification.
pub fn set_time(path: &Path, (tv_sec, tv_nsec): (i64, i64)) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec, tv_nsec },
    };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
