//! Making the folder of a server so that it is whole or, if that is interrupted, can be made again.
//!
//! All is written to `.init` in the folder. The store is moved to its place first, and the root key last: where there is
//! a root key, there is a whole server. The folder itself is never replaced, because it may be where a disk is mounted,
//! or lie where this user makes no others.

use super::folder::Folder;
use super::lock::lock;
use super::replaced;
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder that is being made. On drop, what is not finished is deleted.
pub struct Fresh {
    folder: Folder,
    inner: Folder,
    is_new: bool,
    replaces: bool,
    is_finished: bool,
    _lock: File,
}

impl Fresh {
    /// Begins, in a folder that is empty or does not exist.
    ///
    /// # Errors
    /// If it has something in it, is in use, or cannot be made.
    pub fn begin(folder: &Folder) -> Outcome<Self> {
        let dir = folder.path();
        // A second root key would leave what the first one has sealed without any.
        refuse_second(folder)?;
        let inner = inner(folder);
        let is_new = dir.symlink_metadata().is_err();
        if !is_new {
            // Before anything is made in a folder of somebody else's.
            refuse_strangers(folder, &inner)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| at(dir, e))?;
        let lock = lock(folder)?;
        clear(folder, &inner)?;
        refuse_strangers(folder, &inner)?;
        DirBuilder::new().mode(0o700).create(inner.path()).map_err(|e| at(inner.path(), e))?;
        Ok(Self { folder: folder.clone(), inner, is_new, replaces: false, is_finished: false, _lock: lock })
    }

    /// Begins in the folder of a server that does not run, whose content is replaced at the end. A folder without a server
    /// is begun as by [`Fresh::begin`].
    ///
    /// # Errors
    /// If it is in use, or cannot be written.
    pub fn replacing(folder: &Folder) -> Outcome<Self> {
        // Before a lock is made in a folder of somebody else's, or in a backup.
        if folder.must_be_a_servers().is_err() {
            return Self::begin(folder);
        }
        let lock = lock(folder)?;
        if folder.root().symlink_metadata().is_err() {
            drop(lock);
            return Self::begin(folder);
        }
        let inner = inner(folder);
        DirBuilder::new().mode(0o700).create(inner.path()).map_err(|e| at(inner.path(), e))?;
        Ok(Self { folder: folder.clone(), inner, is_new: false, replaces: true, is_finished: false, _lock: lock })
    }

    /// The folder in which all is made.
    pub fn inner(&self) -> &Folder {
        &self.inner
    }

    /// Makes it the folder of a server, which survives a power cut from now on.
    ///
    /// # Errors
    /// If something cannot be written or moved.
    pub fn finish(mut self) -> Outcome {
        let (from, to) = (&self.inner, &self.folder);
        // It has one of the two.
        let is_shared = from.shared().symlink_metadata().is_ok();
        let store = |folder: &Folder| if is_shared { folder.shared() } else { folder.store() };
        for path in [store(from), from.root(), from.path().to_owned()] {
            sync(&path)?;
        }
        if self.replaces {
            replaced::put_away(&self.folder)?;
        }
        for (from, to) in [(store(from), store(to)), (from.root(), to.root())] {
            fs::rename(&from, &to).map_err(|e| at(&to, e))?;
            sync(self.folder.path())?;
        }
        self.is_finished = true;
        if self.replaces {
            replaced::recover(&self.folder)?;
        }
        let _ = fs::remove_dir_all(self.inner.path());
        // A folder that is new has a new entry in its own folder.
        let dir = self.folder.path().canonicalize().unwrap_or_default();
        dir.parent().map_or(Ok(()), sync)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_finished {
            // Without this, what is in the place of the store may be the old one.
            if replaced::recover(&self.folder).is_ok() {
                let _ = clear(&self.folder, &self.inner);
            }
            if self.is_new {
                let _ = fs::remove_file(self.folder.path().join("lock"));
                let _ = fs::remove_dir(self.folder.path());
            }
        }
    }
}

/// Refuses a folder that has a server already.
///
/// # Errors
/// If it has one.
pub fn refuse_second(folder: &Folder) -> Outcome {
    if folder.root().symlink_metadata().is_err() {
        return Ok(());
    }
    let line = format!("{}: it has a server already", shown(folder.path()));
    Err(Failure::new(Code::InputOutput, line).on(folder.path()))
}

/// Refuses a folder in which there is more than an interrupted run leaves.
fn refuse_strangers(folder: &Folder, inner: &Folder) -> Outcome {
    let dir = folder.path();
    let (stores, left) = ([folder.store(), folder.shared()], inner.root().symlink_metadata().is_ok());
    for entry in fs::read_dir(dir).map_err(|e| at(dir, e))? {
        let entry = entry.map_err(|e| at(dir, e))?;
        let name = entry.file_name();
        let is_store = left && stores.contains(&entry.path());
        let is_ours = name == "lock" || name == "lost+found" || name == ".init" || is_store;
        if !is_ours {
            let line = format!("{}: it is not empty: it has {} in it", shown(dir), shown(Path::new(&name)));
            return Err(Failure::new(Code::InputOutput, line).on(dir).hint("name a new folder, or an empty one"));
        }
    }
    Ok(())
}

/// The folder in which all is made.
fn inner(folder: &Folder) -> Folder {
    Folder::at(folder.path().join(".init"))
}

/// Deletes what an interrupted run has left in the locked folder of a server: such as a second store, with its keys.
///
/// # Errors
/// If it cannot be deleted.
pub fn clear_left(folder: &Folder) -> Outcome {
    // Without a root key, what is left may belong to a store that is in its place already: the next run knows.
    if folder.root().symlink_metadata().is_err() { Ok(()) } else { clear(folder, &inner(folder)) }
}

/// Deletes what an interrupted run has left. A store without a root key is deleted only if its root key is there too.
fn clear(folder: &Folder, inner: &Folder) -> Outcome {
    let gone = |path: PathBuf, result: io::Result<()>| match result {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(at(&path, e)),
        _ => Ok(()),
    };
    if inner.root().symlink_metadata().is_ok() && folder.root().symlink_metadata().is_err() {
        for store in [folder.store(), folder.shared()] {
            gone(store.clone(), fs::remove_file(&store))?;
        }
    }
    gone(inner.path().to_owned(), fs::remove_dir_all(inner.path()))
}

/// Waits until a file or folder is on the disk.
///
/// # Errors
/// If it cannot be written.
pub fn sync(path: &Path) -> Outcome {
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| at(path, e))
}

fn at(path: &Path, error: io::Error) -> Failure {
    Failure::at(path, Error::write(error))
}
