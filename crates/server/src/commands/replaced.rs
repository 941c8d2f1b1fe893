//! Replacing the content of a folder so that it has the old one or the new one, at any moment.
//!
//! The new one is whole in `.init`. The old root key is moved to `.old` first, and the old store after it: the
//! database, and then the file with the URL of a store of several servers. Then the new store comes to its place, and
//! the new root key last. Whoever locks the folder next and finds no root key puts the old content back; with one, the
//! new content is whole, and the old one is deleted.

use super::folder::Folder;
use super::fresh::sync;
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What SQLite keeps beside a database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Moves the content of a locked folder away, from where [`recover`] can take it back.
///
/// # Errors
/// If something cannot be moved.
pub fn put_away(folder: &Folder) -> Outcome {
    let old = old(folder);
    DirBuilder::new().mode(0o700).create(old.path()).map_err(|e| at(old.path(), e))?;
    rename(&folder.root(), &old.root())?;
    synced(folder, &old)?;
    for end in BESIDE {
        rename_if_there(&with_end(&folder.store(), end), &with_end(&old.store(), end))?;
    }
    // Before the store itself: a log of the old one must never lie beside the new one.
    synced(folder, &old)?;
    rename_if_there(&folder.store(), &old.store())?;
    synced(folder, &old)?;
    // Last: where it is away, a database in the folder is the new one.
    rename_if_there(&folder.shared(), &old.shared())?;
    synced(folder, &old)
}

/// Deletes old content if the new one is whole, and puts it back if not. The folder is locked.
///
/// # Errors
/// If something cannot be moved or deleted.
pub fn recover(folder: &Folder) -> Outcome {
    let old = old(folder);
    if !is_there(old.path())? {
        return Ok(());
    }
    if !is_there(&folder.root())? {
        if !is_there(&old.root())? {
            return Ok(());
        }
        if is_there(&old.shared())? {
            if !is_there(&old.store())? && is_there(&folder.store())? {
                fs::remove_file(folder.store()).map_err(|e| at(&folder.store(), e))?;
            }
            rename(&old.shared(), &folder.shared())?;
            synced(folder, &old)?;
        }
        if is_there(&old.store())? {
            // Nobody has opened the new store, so that nothing lies beside it.
            rename(&old.store(), &folder.store())?;
            synced(folder, &old)?;
        }
        for end in BESIDE {
            rename_if_there(&with_end(&old.store(), end), &with_end(&folder.store(), end))?;
        }
        synced(folder, &old)?;
        rename(&old.root(), &folder.root())?;
        synced(folder, &old)?;
    }
    fs::remove_dir_all(old.path()).map_err(|e| at(old.path(), e))
}

/// Whether the root key of a folder was moved away.
pub fn is_interrupted(folder: &Folder) -> bool {
    old(folder).root().symlink_metadata().is_ok()
}

fn old(folder: &Folder) -> Folder {
    Folder::at(folder.path().join(".old"))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

fn is_there(path: &Path) -> Outcome<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(at(path, error)),
    }
}

fn rename(from: &Path, to: &Path) -> Outcome {
    fs::rename(from, to).map_err(|e| at(from, e))
}

fn rename_if_there(from: &Path, to: &Path) -> Outcome {
    if is_there(from)? { rename(from, to) } else { Ok(()) }
}

fn synced(folder: &Folder, old: &Folder) -> Outcome {
    sync(old.path())?;
    sync(folder.path())
}

fn at(path: &Path, error: io::Error) -> Failure {
    Failure::at(path, Error::write(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Files = BTreeMap<String, String>;

    /// The files of a folder, with what is in them.
    fn files(dir: &Path) -> Files {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let file =
            |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap());
        entries.map(file).collect()
    }

    /// A folder with these files, each of which has `old` in it.
    fn folder(names: &[&str]) -> (tempfile::TempDir, Folder, Files) {
        let temp = tempfile::TempDir::new().unwrap();
        names.iter().for_each(|name| fs::write(temp.path().join(name), "old").unwrap());
        let (folder, files) = (Folder::at(temp.path().to_owned()), files(temp.path()));
        (temp, folder, files)
    }

    /// What a folder may have.
    const CONTENTS: [&[&str]; 3] = [
        &["root.phx", "server.db", "server.db-wal", "audit.log"],
        &["root.phx", "store", "audit.log"],
        &["root.phx", "server.db", "store"],
    ];

    #[test]
    fn old_content_comes_back_with_its_store() {
        for names in CONTENTS {
            for has_new_store in [false, true] {
                let (temp, folder, before) = folder(names);
                put_away(&folder).unwrap();
                if has_new_store {
                    fs::write(folder.store(), "new").unwrap();
                }
                recover(&folder).unwrap();
                assert_eq!(files(temp.path()), before);
            }
        }
    }

    #[test]
    fn old_content_comes_back_after_any_step() {
        for names in CONTENTS {
            // Also if it is interrupted again while it comes back: the same steps lead there.
            for steps in 0..=names.len() {
                let (temp, folder, before) = folder(names);
                let old = old(&folder);
                fs::create_dir(old.path()).unwrap();
                let order = ["root.phx", "server.db-wal", "server.db", "store"];
                for name in order.iter().filter(|name| names.contains(*name)).take(steps) {
                    fs::rename(temp.path().join(name), old.path().join(name)).unwrap();
                }
                recover(&folder).unwrap();
                assert_eq!(files(temp.path()), before, "{steps}");
            }
        }
    }

    #[test]
    fn old_content_is_deleted_when_the_new_one_is_whole() {
        for names in CONTENTS {
            let (temp, folder, _) = folder(names);
            put_away(&folder).unwrap();
            fs::write(folder.store(), "new").unwrap();
            fs::write(folder.root(), "new").unwrap();
            recover(&folder).unwrap();
            let mut left = files(temp.path());
            left.remove("audit.log");
            assert_eq!(left, [("root.phx", "new"), ("server.db", "new")].map(|(a, b)| (a.into(), b.into())).into());
        }
    }
}
