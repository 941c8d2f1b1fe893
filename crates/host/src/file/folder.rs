//! Folders that are being made. If a signal ends the process, they are removed with all that is in them.

use super::temporary::step;
use crate::lock::lock;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// So often a folder is removed to which other threads still write.
const TRIES: usize = 100;

/// The folders that this process is making.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder that is being made. On drop, what did not get its name is removed with all that is in it.
#[derive(Debug)]
pub struct NewFolder(PathBuf);

impl NewFolder {
    /// Makes a folder, as a function does.
    ///
    /// # Errors
    /// Those of the function.
    pub fn make(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Self> {
        let _step = step();
        make(path)?;
        lock(&UNFINISHED).push(path.to_owned());
        Ok(Self(path.to_owned()))
    }

    /// Where it is until it gets its name.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn rename(&self, to: &Path) -> io::Result<()> {
        let _step = step();
        fs::rename(&self.0, to)?;
        self.forget();
        Ok(())
    }

    /// Records that it is no longer removed. Returns whether it was to be.
    fn forget(&self) -> bool {
        let mut all = lock(&UNFINISHED);
        let found = all.iter().position(|path| *path == self.0);
        found.map(|i| all.swap_remove(i)).is_some()
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        let _step = step();
        if self.forget() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Removes all of them, for a process that is about to end.
pub(super) fn remove_all() {
    for path in lock(&UNFINISHED).drain(..) {
        // Another thread may make a file there meanwhile.
        let is_left =
            |_: &usize| matches!(fs::remove_dir_all(&path), Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty);
        let _ = (0..TRIES).take_while(is_left).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_its_name_goes_with_all_in_it() {
        let temp = tempfile::tempdir().unwrap();
        let make = |name: &str| NewFolder::make(&temp.path().join(name), |path| fs::create_dir(path)).unwrap();
        let new = make("new");
        fs::create_dir_all(new.path().join("inner")).unwrap();
        fs::write(new.path().join("inner/file"), "text").unwrap();
        drop(new);
        let named = make("unnamed");
        fs::write(named.path().join("file"), "text").unwrap();
        named.rename(&temp.path().join("named")).unwrap();
        drop(named);
        assert_eq!(fs::read(temp.path().join("named/file")).unwrap(), b"text");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
        assert!(NewFolder::make(&temp.path().join("named"), |path| fs::create_dir(path)).is_err());
        assert!(temp.path().join("named/file").exists());
    }
}
