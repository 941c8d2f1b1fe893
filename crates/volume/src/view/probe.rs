//! Testing whether the keys at hand open anything, before it is mounted. A password is asked for here.

use super::folders::plain_name;
use super::{FILE, View};
use phalanx_core::{Class, Error, KeySource, ProtectedFile, Reader};
use phalanx_host::file::{self, is_temporary};
use rustix::fs::{self as sys, Dir, Mode, OFlags};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// How many files are tried.
const FILES: usize = 16;
/// How many entries are looked at.
const ENTRIES: usize = 100_000;
/// How many folders are looked at.
const FOLDERS: usize = 256;

const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What was found.
#[derive(Debug)]
pub enum Probe {
    /// The keys open a file.
    Opens,
    /// The keys open none of the first files, or not the only one. Holds the path of the first one, and why it does not
    /// open.
    Locked(PathBuf, Error),
    /// There is no protected file.
    Empty,
    /// Unknown: the tree is too large to search, or the first files are damaged.
    Unknown,
}

impl<K: KeySource + Send + Sync + 'static> View<K> {
    /// Tries the keys on the first files. This asks for a password if one is needed.
    #[must_use]
    pub fn probe(&self) -> Probe {
        if let Some((stored, _)) = &self.tree.single {
            let Some(file) = regular(&self.tree.folder, stored) else { return Probe::Unknown };
            // This reads the end of the file too, which decides its length. Without it, nothing can be read.
            return match Reader::open(Arc::new(file), self.opener()) {
                Err(error) => Probe::Locked(self.tree.path.clone(), error),
                Ok(_) => Probe::Opens,
            };
        }
        let mut tried = Tried::default();
        tried.tree(self);
        match tried {
            Tried { opens: true, .. } => Probe::Opens,
            Tried { locked: Some((path, error)), .. } => Probe::Locked(path, error),
            Tried { files: 0, is_whole: true, .. } => Probe::Empty,
            _ => Probe::Unknown,
        }
    }
}

/// Opens a file, if it exists and is a regular one.
fn regular(folder: &OwnedFd, name: &OsStr) -> Option<File> {
    let file = sys::openat(folder, name, FILE, Mode::empty()).map(File::from).ok()?;
    file.metadata().is_ok_and(|meta| meta.is_file()).then_some(file)
}

#[derive(Default)]
struct Tried {
    opens: bool,
    locked: Option<(PathBuf, Error)>,
    files: usize,
    entries: usize,
    /// Whether everything has been looked at.
    is_whole: bool,
}

impl Tried {
    fn tree<K: KeySource + Send + Sync + 'static>(&mut self, view: &View<K>) {
        let Ok(root) = sys::openat(&*view.tree.folder, ".", LISTED, Mode::empty()) else { return };
        let mut folders = VecDeque::from([(root, view.tree.path.clone())]);
        self.is_whole = true;
        while let Some((folder, path)) = folders.pop_front() {
            let Ok(entries) = Dir::read_from(&folder) else {
                self.is_whole = false;
                continue;
            };
            for entry in entries {
                let Ok(entry) = entry else { break };
                let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
                self.entries += 1;
                if self.opens || self.files == FILES || self.entries == ENTRIES {
                    self.is_whole = false;
                    return;
                }
                if entry.file_type() != sys::FileType::Directory && plain_name(&name).is_some() && !is_temporary(&name)
                {
                    self.file(view, &folder, &name, path.join(&name));
                } else if name != "." && name != ".." {
                    match sys::openat(&folder, &name, LISTED, Mode::empty()) {
                        Ok(inner) if folders.len() < FOLDERS => folders.push_back((inner, path.join(&name))),
                        Ok(_) => self.is_whole = false,
                        // It is not a folder, or cannot be read.
                        Err(_) => {}
                    }
                }
            }
        }
    }

    fn file<K: KeySource + Send + Sync + 'static>(
        &mut self,
        view: &View<K>,
        folder: &OwnedFd,
        name: &OsStr,
        path: PathBuf,
    ) {
        let Some(file) = regular(folder, name) else { return };
        self.files += 1;
        let opened = || -> phalanx_host::Result<_> { Ok(ProtectedFile::open(file::source(&file)?, view.opener())?) };
        match opened() {
            Ok(_) => self.opens = true,
            // Damaged files are reported when they are opened. Of the others, the first one is reported.
            Err(phalanx_host::Error::Core(e)) if e.class() == Class::NotAuthentic && is_of_keys(&e) => {
                self.locked.get_or_insert((path, e));
            }
            Err(_) => {}
        }
    }
}

pub(super) fn is_of_keys(error: &Error) -> bool {
    matches!(error, Error::NoKey { .. } | Error::WrongKey | Error::KeysRefused { .. } | Error::KdfLimit(_))
}
