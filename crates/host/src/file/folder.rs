//! Folders of a few files that appear whole or not at all.
//!
//! Such a folder is made beside its place, as `.NAME.` and 16 random digits, and locked for as long as somebody writes to
//! it. The first thing in it is the empty file `unfinished`, which is removed just before the folder gets its name. What is
//! not finished is removed on drop, by a signal that ends the process, or by the next run for the same name. Only a kill
//! between the two leaves a whole folder under the other name.
//!
//! Whoever may rename what lies beside it can put another folder of this user in its place, such as a finished one. So
//! nothing is reached by its path: of the folder that is open, only the files are removed of which it is made.

use super::output::sync_folder;
use super::temporary::{create, is_own, step};
use crate::lock::lock;
use phalanx_system::files::open_folder;
use phalanx_system::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags};
use phalanx_system::io::{Errno, Result};
use phalanx_system::os::ffi::OsStrExt;
use phalanx_system::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What is in a folder that is not finished.
const MARK: &str = "unfinished";

/// The folders that this process is making.
static UNFINISHED: Mutex<Vec<Arc<Making>>> = Mutex::new(Vec::new());

/// A folder that is not finished.
#[derive(Debug)]
struct Making {
    /// The folder in which it lies.
    outer: File,
    name: OsString,
    dir: File,
    files: &'static [&'static str],
}

impl Making {
    /// Makes one, which is locked and has the mark.
    fn new(outer: File, name: OsString, files: &'static [&'static str]) -> Result<Self> {
        fs::mkdirat(&outer, &*name, Mode::RWXU)?;
        Self::mark(&outer, &name)
            .inspect_err(|_| {
                // It is empty, or another one.
                let _ = fs::unlinkat(&outer, &*name, AtFlags::REMOVEDIR);
            })
            .map(|dir| Self { outer, name, dir, files })
    }

    fn mark(outer: &File, name: &OsStr) -> Result<File> {
        let dir = open(outer, name)?;
        // Another one may be there now.
        if !is_empty(&dir)? {
            return Err(Errno::NOTEMPTY);
        }
        // Where the file system has no locks, nobody clears up either. Whoever is looking for the mark has it for a moment.
        let _ = fs::flock(&dir, FlockOperation::LockExclusive);
        create(&dir, MARK)?;
        Ok(dir)
    }

    /// One that a run has left that was killed.
    fn left(outer: &File, name: &OsStr, files: &'static [&'static str]) -> Option<Self> {
        let dir = open(outer, name).ok()?;
        let stat = fs::fstat(&dir).ok()?;
        // Whoever else can write to it could have put the mark there.
        let is_private = stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o022 == 0;
        fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).ok()?;
        let mark = fs::statat(&dir, MARK, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_left = is_private && is_own(&mark) && mark.st_size == 0;
        let outer = outer.try_clone().ok()?;
        is_left.then(|| Self { outer, name: name.to_owned(), dir, files })
    }

    /// Removes it. What somebody else has put into it stays, and so does whatever has its name now and is not empty.
    fn remove(&self) -> Result<()> {
        // The mark is the last one, so that this can be interrupted.
        for name in self.files.iter().copied().chain([MARK]) {
            match fs::unlinkat(&self.dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
        }
        match fs::unlinkat(&self.outer, &*self.name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            done => done,
        }
    }
}

/// A folder that is being made. On drop, what did not get its name is removed.
#[derive(Debug)]
pub struct NewFolder {
    making: Arc<Making>,
    /// Its name in the end.
    target: OsString,
}

impl NewFolder {
    /// Begins a folder of files with these names, and removes what earlier runs for the same path have left.
    ///
    /// # Errors
    /// If something cannot be removed or made.
    pub fn new(to: &Path, files: &'static [&'static str]) -> io::Result<Self> {
        let target = to.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let outer = open_folder(phalanx_system::parent(to))?;
        let mut start = OsString::from(".");
        start.push(&target);
        start.push(".");
        clear_left(&outer, &start, files)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        start.push(format!("{:016x}", u64::from_le_bytes(random)));
        let new = {
            let _step = step();
            let making = Arc::new(Making::new(outer, start, files)?);
            lock(&UNFINISHED).push(making.clone());
            Self { making, target }
        };
        // A power cut leaves no file without the mark.
        sync_folder(&new.making.dir)?;
        Ok(new)
    }

    /// Makes one of the files, for its owner alone. Whoever has written it syncs it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(&self, number: usize) -> io::Result<File> {
        let _step = step();
        Ok(create(&self.making.dir, self.making.files[number])?)
    }

    /// Gives the folder its name. It survives a power cut from now on.
    ///
    /// # Errors
    /// If it cannot be synced or renamed.
    pub fn finish(&self) -> io::Result<()> {
        let Making { outer, name, dir, .. } = &*self.making;
        sync_folder(dir)?;
        {
            let _step = step();
            fs::unlinkat(dir, MARK, AtFlags::empty())?;
            // The mark is gone before the folder has its name, also after a power cut.
            sync_folder(dir)?;
            fs::renameat(outer, &**name, outer, &*self.target)?;
            self.forget();
        }
        Ok(sync_folder(outer)?)
    }

    /// Records that it is no longer removed. Returns whether it was to be.
    fn forget(&self) -> bool {
        let mut all = lock(&UNFINISHED);
        let found = all.iter().position(|making| Arc::ptr_eq(making, &self.making));
        found.map(|i| all.swap_remove(i)).is_some()
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        let _step = step();
        if self.forget() {
            let _ = self.making.remove();
        }
    }
}

/// Removes all of them, for a process that is about to end.
pub(super) fn remove_all() {
    for making in lock(&UNFINISHED).drain(..) {
        let _ = making.remove();
    }
}

fn open(outer: &File, name: &OsStr) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(outer, name, flags, Mode::empty()).map(File::from)
}

fn is_empty(dir: &File) -> Result<bool> {
    for entry in Dir::read_from(dir)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes what killed runs have left whose names begin so.
fn clear_left(outer: &File, start: &OsStr, files: &'static [&'static str]) -> Result<()> {
    let is_random = |digits: &[u8]| digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit);
    for entry in Dir::read_from(outer)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.strip_prefix(start.as_bytes()).is_some_and(is_random)
            && let Some(left) = Making::left(outer, OsStr::from_bytes(name), files)
        {
            left.remove()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs as paths;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const FILES: &[&str] = &["a", "b"];

    fn begin(temp: &TempDir) -> NewFolder {
        let new = NewFolder::new(&temp.path().join("new"), FILES).unwrap();
        new.create(0).unwrap();
        new
    }

    fn place(temp: &TempDir, new: &NewFolder) -> PathBuf {
        temp.path().join(&new.making.name)
    }

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = paths::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_with_its_files_or_not_at_all() {
        let temp = TempDir::new().unwrap();
        let new = begin(&temp);
        assert_eq!(names(&place(&temp, &new)), ["a", MARK]);
        drop(new);
        assert_eq!(names(temp.path()), Vec::<OsString>::new());
        let new = begin(&temp);
        new.create(1).unwrap();
        assert!(new.create(1).is_err());
        new.finish().unwrap();
        drop(new);
        assert_eq!(names(temp.path()), ["new"]);
        assert_eq!(names(&temp.path().join("new")), FILES);
        // Nothing replaces it.
        let new = begin(&temp);
        assert!(new.finish().is_err());
        drop(new);
        assert_eq!((names(temp.path()).len(), names(&temp.path().join("new")).len()), (1, 2));
    }

    #[cfg(unix)]
    #[test]
    fn what_has_taken_its_place_stays() {
        let temp = TempDir::new().unwrap();
        let new = begin(&temp);
        let (place, away) = (place(&temp, &new), temp.path().join("away"));
        paths::rename(&place, &away).unwrap();
        paths::create_dir(&place).unwrap();
        paths::write(place.join("a"), "another").unwrap();
        drop(new);
        assert_eq!(paths::read(place.join("a")).unwrap(), b"another");
        assert_eq!(names(&away), Vec::<OsString>::new());
    }

    #[cfg(unix)]
    #[test]
    fn only_what_was_left_is_removed_and_of_it_only_its_own_files() {
        use std::os::unix::fs::PermissionsExt;
        let temp = TempDir::new().unwrap();
        let left = |digit: char, files: &[&str], mode: u32| {
            let dir = temp.path().join(format!(".new.{}", digit.to_string().repeat(16)));
            paths::create_dir(&dir).unwrap();
            files.iter().for_each(|name| paths::write(dir.join(name), "").unwrap());
            paths::set_permissions(&dir, paths::Permissions::from_mode(mode)).unwrap();
            dir
        };
        let killed = left('0', &["a", "b", MARK], 0o700);
        let finished = left('1', &["a", "b"], 0o700);
        let open = left('2', &["a", MARK], 0o770);
        let with_another = left('3', &["a", "c", MARK], 0o700);
        let full = left('4', &["a"], 0o700);
        paths::write(full.join(MARK), "text").unwrap();
        let linked = left('5', &["a"], 0o700);
        std::os::unix::fs::symlink(full.join("a"), linked.join(MARK)).unwrap();
        let other_name = temp.path().join(".new.0123");
        paths::create_dir(&other_name).unwrap();
        paths::write(other_name.join(MARK), "").unwrap();
        drop(begin(&temp));
        assert!(!killed.exists());
        assert_eq!(names(&finished), ["a", "b"]);
        assert_eq!(names(&open), ["a", MARK]);
        assert_eq!(names(&with_another), ["c"]);
        assert_eq!(names(&full), ["a", MARK]);
        assert_eq!(names(&linked), ["a", MARK]);
        assert_eq!(names(&other_name), [MARK]);
    }

    #[cfg(unix)]
    #[test]
    fn what_somebody_still_writes_stays() {
        let temp = TempDir::new().unwrap();
        let first = begin(&temp);
        drop(begin(&temp));
        assert_eq!(names(&place(&temp, &first)), ["a", MARK]);
        first.finish().unwrap();
        assert_eq!(names(&temp.path().join("new")), ["a"]);
    }
}
