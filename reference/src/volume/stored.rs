//! The folder of a volume, as it lies on a disk.

use std::collections::BTreeMap;

/// Extended attributes: each name with its value.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A folder with all its entries, by path. A path is relative to the folder and has `/` between its parts; the folder itself
/// has the empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The entries, the folder itself included.
    pub entries: BTreeMap<Vec<u8>, Entry>,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The inode number. Two entries with the same one are two names of one file.
    pub inode: u64,
    /// The extended attributes.
    pub xattrs: Xattrs,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file with its content.
    File(Vec<u8>),
    /// A symbolic link, and what it points to.
    Link(Vec<u8>),
    /// Anything else.
    Special(Special),
}

/// The kind of an entry without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A block device or a character device.
    Device,
}

/// The path of an entry in a folder.
pub fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

impl Stored {
    /// The content of a regular file.
    pub fn file(&self, path: &[u8]) -> Option<&[u8]> {
        match self.entries.get(path) {
            Some(Entry { kind: Kind::File(bytes), .. }) => Some(bytes),
            _ => None,
        }
    }

    /// The names and entries of a folder, without those of the folders in it.
    pub fn list(&self, folder: &[u8]) -> Vec<(&[u8], &Entry)> {
        let name_of = |path: &'_ [u8]| -> Option<usize> {
            let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
            let inside = path.len() > start && path.starts_with(folder) && (start == 0 || path[start - 1] == b'/');
            (inside && !path[start..].contains(&b'/')).then_some(start)
        };
        self.entries.iter().filter_map(|(path, entry)| Some((&path[name_of(path)?..], entry))).collect()
    }

    /// Moves an entry with everything in it.
    ///
    /// # Panics
    /// If it is not there.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        let moved = self.remove(from);
        assert!(!moved.is_empty(), "no such entry");
        self.entries.extend(moved.into_iter().map(|(path, entry)| ([to, &path[from.len()..]].concat(), entry)));
    }

    /// Removes an entry with everything in it, and returns them.
    pub fn remove(&mut self, path: &[u8]) -> Vec<(Vec<u8>, Entry)> {
        let below = join(path, b"");
        self.entries.extract_if(.., |other, _| other == path || other.starts_with(&below)).collect()
    }
}

/// Reads a folder into memory. The standard library cannot read extended attributes, so the caller passes a function for this.
///
/// # Errors
/// If anything cannot be read.
#[cfg(unix)]
pub fn load_folder(
    folder: &std::path::Path,
    xattrs: &dyn Fn(&std::path::Path) -> std::io::Result<Xattrs>,
) -> std::io::Result<Stored> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    let mut stored = Stored::default();
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let at = folder.join(std::ffi::OsStr::from_bytes(&path));
        let data = std::fs::symlink_metadata(&at)?;
        let kind = data.file_type();
        let kind = if kind.is_dir() {
            for entry in std::fs::read_dir(&at)? {
                paths.push(join(&path, entry?.file_name().as_bytes()));
            }
            Kind::Folder
        } else if kind.is_file() {
            Kind::File(std::fs::read(&at)?)
        } else if kind.is_symlink() {
            Kind::Link(std::fs::read_link(&at)?.into_os_string().into_vec())
        } else if kind.is_fifo() {
            Kind::Special(Special::Fifo)
        } else if kind.is_socket() {
            Kind::Special(Special::Socket)
        } else {
            Kind::Special(Special::Device)
        };
        // Links and special files have no user attributes.
        let xattrs = if matches!(kind, Kind::Folder | Kind::File(_)) { xattrs(&at)? } else { Xattrs::new() };
        stored.entries.insert(path, Entry { kind, inode: data.ino(), xattrs });
    }
    Ok(stored)
}
