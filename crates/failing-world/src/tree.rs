//! What is in a folder: taken into memory, and put back.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use std::collections::{BTreeMap, HashMap};
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

/// Makes what a folder holds this tree, whose files are those that are there or that lie in `removed` by the numbers of their
/// inodes: what a volume's journal says of a file it says of an inode. False if one of them is not there; then nothing was changed.
pub fn change(root: &Path, removed: &Path, aside: &Path, tree: &Tree) -> io::Result<bool> {
    let mut places: HashMap<u64, PathBuf> = HashMap::new();
    for folder in [removed, root] {
        places.extend(take(folder)?.into_iter().map(|(path, node)| (node.ino, folder.join(path))));
    }
    let is_file = |node: &Node| matches!(node.kind, Entry::File(_));
    if tree.values().any(|node| is_file(node) && !places.contains_key(&node.ino)) {
        return Ok(false);
    }
    let _ = fs::remove_dir_all(aside);
    fs::create_dir(aside)?;
    for node in tree.values().filter(|node| is_file(node)) {
        // A file with two names is there once.
        let _ = fs::rename(&places[&node.ino], aside.join(node.ino.to_string()));
    }
    // What has a name again has no other one.
    fs::remove_dir_all(removed)?;
    let others: Tree =
        tree.iter().filter(|(_, node)| !is_file(node)).map(|(path, node)| (path.clone(), node.clone())).collect();
    put(root, &others)?;
    for (path, node) in tree {
        let Entry::File(bytes) = &node.kind else { continue };
        let full = root.join(path);
        let _ = fs::rename(aside.join(node.ino.to_string()), &full);
        fs::write(&full, bytes)?;
        fs::set_permissions(&full, Permissions::from_mode(node.mode))?;
        set_time(&full, node.time)?;
    }
    Ok(true)
}

/// Sets the time of modification.
pub fn set_time(path: &Path, (tv_sec, tv_nsec): (i64, i64)) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec, tv_nsec },
    };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
