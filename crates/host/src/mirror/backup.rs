//! `--backup-dir`: what a run would replace or delete in a mirror goes to another folder instead.

use crate::file::{sync_folder, unprotected_name};
use crate::folders::{FOLDER, id, is_within, open_parent};
use crate::lock::lock;
use crate::{Error, Result};
use phalanx_system::fs::{self, AtFlags, Mode, RenameFlags};
use phalanx_system::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

/// So many folders are open at most until they are synced.
const MOST_OPEN: usize = 64;

/// The folder that replaced and deleted entries go to. Their paths in it are those in the mirror.
#[derive(Debug)]
pub struct Backup {
    root: File,
    /// Whether what is kept must be on the disk before it is gone from its place.
    sync: bool,
    /// What may not be on the disk yet.
    unsynced: Mutex<Unsynced>,
}

/// What is kept and may not be on the disk yet.
#[derive(Debug, Default)]
struct Unsynced {
    /// The folders that it is in.
    folders: Vec<((u64, u64), File)>,
    /// Why some of it was not written. A file system says so only once.
    failed: Option<Errno>,
}

impl Backup {
    /// Makes the folder, or takes the one that is there. It must be on the file system of the mirror, and outside it.
    ///
    /// # Errors
    /// If it cannot be made, or is elsewhere.
    pub fn new(path: &Path, mirror: &File, sync: bool) -> Result<Self> {
        let refused = |why: &str| Error::write(std::io::Error::other(why));
        let (parent, name) = open_parent(path).map_err(Error::write)?;
        let mirror = id(mirror).map_err(Error::write)?;
        let within = "the folder for backups is within the mirror";
        // Before the folder is made.
        if is_within(&parent, mirror).map_err(Error::write)? {
            return Err(refused(within));
        }
        let root = folder(&parent, &name).map_err(Error::write)?;
        if is_within(&root, mirror).map_err(Error::write)? {
            return Err(refused(within));
        }
        if id(&root).map_err(Error::write)?.0 != mirror.0 {
            return Err(refused("the folder for backups is on another file system than the mirror"));
        }
        Ok(Self { root, sync, unsynced: Mutex::default() })
    }

    /// Keeps a file or link that is about to be replaced. It stays in its place meanwhile, if the file system has hard links.
    ///
    /// # Errors
    /// If it cannot be kept. It must not be replaced then.
    pub fn keep(&self, dir: &File, name: &OsStr, path: &Path) -> Result<()> {
        self.usable()?;
        let into = self.parent(path).map_err(Error::write)?;
        let each = |to: &OsStr| match fs::linkat(dir, name, &into, to, AtFlags::empty()) {
            Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK) => {
                fs::renameat_with(dir, name, &into, to, RenameFlags::NOREPLACE)
            }
            done => done,
        };
        free_name(name, each)?;
        self.remember(into)
    }

    /// Nothing goes into a backup of which some may be lost: what would follow it could not be replaced.
    fn usable(&self) -> Result<()> {
        lock(&self.unsynced).failed.map_or(Ok(()), |e| Err(Error::write(e)))
    }

    /// Remembers a folder in which something is kept by now.
    fn remember(&self, into: File) -> Result<()> {
        let into_id = id(&into).map_err(Error::write)?;
        let mut unsynced = lock(&self.unsynced);
        if unsynced.folders.iter().any(|(known, _)| *known == into_id) {
            return Ok(());
        }
        unsynced.folders.push((into_id, into));
        let is_full = unsynced.folders.len() >= MOST_OPEN;
        drop(unsynced);
        if is_full { self.kept().map_err(Error::write) } else { Ok(()) }
    }

    /// Called before what was kept is replaced, and before a manifest is written that does not list it any more. It is on the disk
    /// afterwards: otherwise the new output or manifest could be there after a power cut, and the backup not. Another thread waits until
    /// the first one is done. If that fails, so does each later call.
    ///
    /// # Errors
    /// If the system reports that something was not written.
    pub fn kept(&self) -> phalanx_system::io::Result<()> {
        let mut unsynced = lock(&self.unsynced);
        let folders = std::mem::take(&mut unsynced.folders);
        if self.sync
            && unsynced.failed.is_none()
            && let Err(e) = folders.iter().try_for_each(|(_, folder)| sync_folder(folder))
        {
            unsynced.failed = Some(e);
        }
        unsynced.failed.map_or(Ok(()), Err)
    }

    /// Moves an entry away that is about to be deleted.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub fn take(&self, dir: &File, name: &OsStr, path: &Path) -> Result<()> {
        self.usable()?;
        let into = self.parent(path).map_err(Error::write)?;
        free_name(name, |to| fs::renameat_with(dir, name, &into, to, RenameFlags::NOREPLACE))?;
        self.remember(into)
    }

    /// The folder in the backup in which an entry with this path belongs.
    fn parent(&self, path: &Path) -> phalanx_system::io::Result<File> {
        let mut into = File::from(fs::openat(&self.root, ".", FOLDER, Mode::empty())?);
        for name in path.parent().into_iter().flat_map(Path::iter) {
            into = folder(&into, name)?;
        }
        Ok(into)
    }
}

/// Calls `act` with a name, and with others if it is in use: `notes.txt.phx`, `notes.txt.~1~.phx`, `notes.txt.~2~.phx`.
fn free_name(name: &OsStr, act: impl Fn(&OsStr) -> phalanx_system::io::Result<()>) -> Result<()> {
    const MOST: u32 = 10_000;
    let mut done = act(name);
    for number in 1..MOST {
        if done != Err(Errno::EXIST) {
            break;
        }
        let base = unprotected_name(name);
        let mut next: OsString = base.as_deref().unwrap_or(name).to_owned();
        next.push(format!(".~{number}~"));
        if base.is_some() {
            next.push(".phx");
        }
        done = act(&next);
    }
    done.map_err(Error::write)
}

/// Opens a folder, and makes it if it is not there. A new one is on the disk before anything is moved into it.
fn folder(parent: &File, name: &OsStr) -> phalanx_system::io::Result<File> {
    match fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => sync_folder(parent)?,
        Err(Errno::EXIST) => {}
        Err(e) => return Err(e),
    }
    Ok(fs::openat(parent, name, FOLDER, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs as std_fs;

    #[test]
    fn nothing_in_the_backup_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std_fs::create_dir_all(at("mirror/a")).unwrap();
        let mirror = File::open(at("mirror")).unwrap();
        let a = File::open(at("mirror/a")).unwrap();
        let backup = Backup::new(&at("old"), &mirror, true).unwrap();
        for content in ["one", "two", "three"] {
            std_fs::write(at("mirror/a/x.phx"), content).unwrap();
            backup.keep(&a, OsStr::new("x.phx"), Path::new("a/x.phx")).unwrap();
            std_fs::remove_file(at("mirror/a/x.phx")).unwrap();
        }
        std_fs::write(at("mirror/a/x.phx"), "four").unwrap();
        backup.take(&a, OsStr::new("x.phx"), Path::new("a/x.phx")).unwrap();
        assert!(!at("mirror/a/x.phx").exists());
        for (name, content) in [("x.phx", "one"), ("x.~1~.phx", "two"), ("x.~2~.phx", "three"), ("x.~3~.phx", "four")] {
            assert_eq!(std_fs::read_to_string(at("old/a").join(name)).unwrap(), content);
        }
    }

    #[test]
    fn a_folder_within_the_mirror_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std_fs::create_dir_all(dir.path().join("mirror")).unwrap();
        let mirror = File::open(dir.path().join("mirror")).unwrap();
        assert!(Backup::new(&dir.path().join("mirror/old"), &mirror, true).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_could_not_be_synced_is_not_on_the_disk_for_later_calls_either() {
        let dir = tempfile::tempdir().unwrap();
        std_fs::create_dir_all(dir.path().join("mirror")).unwrap();
        let mirror = File::open(dir.path().join("mirror")).unwrap();
        let backup = Backup::new(&dir.path().join("old"), &mirror, true).unwrap();
        assert_eq!(backup.kept(), Ok(()));
        // What is only searched cannot be synced.
        let searched = fs::openat(&mirror, ".", crate::folders::SEARCHED, Mode::empty()).unwrap();
        backup.remember(searched.into()).unwrap();
        assert_eq!((backup.kept(), backup.kept()), (Err(Errno::BADF), Err(Errno::BADF)));
        // Nothing leaves its place then, also where there are no hard links.
        std_fs::write(dir.path().join("mirror/x.phx"), "x").unwrap();
        let (name, path) = (OsStr::new("x.phx"), Path::new("x.phx"));
        assert!(backup.keep(&mirror, name, path).is_err() && backup.take(&mirror, name, path).is_err());
        assert!(dir.path().join("mirror/x.phx").exists() && !dir.path().join("old/x.phx").exists());
    }
}
