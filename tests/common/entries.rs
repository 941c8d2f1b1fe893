//! What is in a folder, for comparing it with what was in it before, or with another folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What an entry of a folder holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Content {
    Folder,
    File(Vec<u8>),
    Link(Vec<u8>),
    Pipe,
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub content: Content,
    /// Its permissions. Links have none.
    pub mode: u32,
    /// When it was modified, in seconds and nanoseconds. Links have no time.
    pub modified: (i64, i64),
    pub inode: u64,
}

/// The entries of a folder by their paths, itself included.
pub type Entries = BTreeMap<PathBuf, Entry>;

/// Everything in a folder. Links are not followed.
pub fn entries(root: &Path) -> Entries {
    let mut all = Entries::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let content = if kind.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Content::Folder
        } else if kind.is_symlink() {
            Content::Link(fs::read_link(&path).unwrap().into_os_string().into_vec())
        } else if kind.is_fifo() {
            Content::Pipe
        } else {
            Content::File(fs::read(&path).unwrap())
        };
        let (mode, modified) = match content {
            Content::Link(_) => (0, (0, 0)),
            _ => (meta.mode() & 0o7777, (meta.mtime(), meta.mtime_nsec())),
        };
        let entry = Entry { content, mode, modified, inode: meta.ino() };
        all.insert(path.strip_prefix(root).unwrap().to_owned(), entry);
    }
    all
}

/// The same without inodes, which differ between a folder and its copy.
pub fn without_inodes(mut entries: Entries) -> Entries {
    entries.values_mut().for_each(|entry| entry.inode = 0);
    entries
}

/// The first difference between two folders, if there is one.
pub fn difference(left: &Entries, right: &Entries) -> Option<String> {
    let paths = left.keys().chain(right.keys());
    let path = paths.into_iter().find(|path| left.get(*path) != right.get(*path))?;
    let text = |entry: Option<&Entry>| {
        entry.map_or("nothing".into(), |entry| {
            let content = match &entry.content {
                Content::File(bytes) => format!("a file of {} bytes", bytes.len()),
                other => format!("{other:?}"),
            };
            format!("{content}, mode {:o}, time {:?}, inode {}", entry.mode, entry.modified, entry.inode)
        })
    };
    Some(format!("{}: {} and {}", path.display(), text(left.get(path)), text(right.get(path))))
}
