//! Files with several names: a run changes such a file in place once, and never under two names at the same time.

use phalanx_host::file::InputFile;
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Device and inode of a file.
type Id = (u64, u64);

/// The files that a run works on, and those with several names that it has changed in place.
#[derive(Default)]
pub struct Taken {
    files: Mutex<Files>,
    over: Condvar,
}

#[derive(Default)]
struct Files {
    now: HashSet<Id>,
    done: HashSet<Id>,
}

impl Taken {
    /// Waits until no other thread works on the file. `None` if it was done under another name, unless it is to be done
    /// again.
    pub fn turn(&self, file: &InputFile, again: bool) -> Option<Turn<'_>> {
        let id = file.stamp().id();
        let files = self.over.wait_while(self.lock(), |files| files.now.contains(&id));
        let mut files = files.unwrap_or_else(PoisonError::into_inner);
        if files.done.contains(&id) && !again {
            return None;
        }
        files.now.insert(id);
        Some(Turn { taken: self, id })
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that one thread works on.
pub struct Turn<'a> {
    taken: &'a Taken,
    id: Id,
}

impl Turn<'_> {
    /// Records that the file is done under all its names.
    pub fn done(self) {
        self.taken.lock().done.insert(self.id);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.taken.lock().now.remove(&self.id);
        self.taken.over.notify_all();
    }
}
