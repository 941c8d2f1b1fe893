//! The files that rank 0's driver finds in trees with manifests. The leader makes tasks of them, and gives each file
//! back when it is done.

use crate::message::{Entry, Holds, Listed, Location, ReportedFailure, Task, Written};
use crate::tree::{BATCH_BYTES, BATCH_FILES, DIVIDED};
use phalanx_core::tree::Contents;
use phalanx_host::Error;
use phalanx_host::failure::Failure;
use phalanx_host::transfer::walk;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

/// A file to work on.
pub struct Found {
    pub task: walk::Task,
    /// The number of its tree.
    pub tree: u32,
    /// The input's length in bytes, and its modification time in seconds and nanoseconds.
    pub len: u64,
    pub mtime: (i64, i64),
    /// What it must hold, if it is opened.
    pub contents: Option<Contents>,
    /// The permissions and the time that it had when its mirror was written, in seconds and nanoseconds.
    pub metadata: Option<(u32, (i64, u32))>,
}

impl Found {
    /// The path of its folder, from the root of the tree on.
    pub fn folder(&self) -> Vec<u8> {
        let path = self.task.folder.path(OsStr::new(""));
        let below = path.strip_prefix(&self.task.folder.tree().input).unwrap_or(Path::new(""));
        below.as_os_str().as_bytes().to_vec()
    }
}

/// A file that is done. Without `written`, it has failed, and that has been reported.
pub struct Returned {
    pub found: Found,
    pub written: Option<Written>,
}

/// The files that the driver finds.
pub struct Feed {
    /// `None` when the driver has found everything.
    found: Option<Receiver<Found>>,
    back: Sender<Returned>,
    /// The files that are not done, by their numbers.
    pending: BTreeMap<u64, Found>,
    next: u64,
    batch: Batch,
}

/// Files of one folder that make a task together.
#[derive(Default)]
struct Batch {
    tree: u32,
    folder: Vec<u8>,
    files: Vec<Entry>,
    bytes: u64,
}

impl Batch {
    /// A task for its files, if there are any.
    fn take(&mut self) -> Option<Task> {
        let Self { tree, folder, files, .. } = std::mem::take(self);
        (!files.is_empty()).then_some(Task::Files { tree: Some(tree), folder, files })
    }
}

impl Feed {
    pub fn new(found: Receiver<Found>, back: Sender<Returned>) -> Self {
        Self { found: Some(found), back, pending: BTreeMap::new(), next: 0, batch: Batch::default() }
    }

    /// Whether everything was found and is done.
    pub fn is_over(&self) -> bool {
        self.found.is_none() && self.pending.is_empty()
    }

    /// The next task, if there is one. With `hurries`, a batch that is not full is one. Also returns how many files were
    /// found, and how many bytes they have.
    pub fn next(&mut self, hurries: bool) -> (Option<Task>, u64, u64) {
        let (mut files, mut bytes) = (0, 0);
        let task = loop {
            match self.found.as_ref().map_or(Err(TryRecvError::Disconnected), Receiver::try_recv) {
                Ok(found) => {
                    files += 1;
                    bytes += found.len;
                    if let Some(task) = self.add(found) {
                        break Some(task);
                    }
                }
                Err(TryRecvError::Empty) if !hurries => break None,
                Err(e) => {
                    self.found.take_if(|_| e == TryRecvError::Disconnected);
                    break self.batch.take();
                }
            }
        };
        (task, files, bytes)
    }

    /// Adds a file to the batch. Returns the task that it completes, if it does.
    fn add(&mut self, found: Found) -> Option<Task> {
        let number = self.next;
        self.next += 1;
        let holds = found.contents.map(Holds::from);
        let listed = Some(Listed { number, holds, metadata: found.metadata });
        let (tree, folder, len, mtime) = (found.tree, found.folder(), found.len, found.mtime);
        let name = found.task.name.as_bytes().to_vec();
        let output = found.task.handles.output.as_ref().map(|_| found.task.output_name.clone().into_vec());
        self.pending.insert(number, found);
        if len >= DIVIDED {
            let location = Location { tree: Some(tree), folder, name, output, listed };
            return Some(Task::Begin { file: 0, location });
        }
        let is_same = (self.batch.tree, &self.batch.folder) == (tree, &folder);
        let full = self.batch.files.len() >= BATCH_FILES || self.batch.bytes >= BATCH_BYTES;
        let before = if is_same && !full { None } else { self.batch.take() };
        (self.batch.tree, self.batch.folder) = (tree, folder);
        self.batch.bytes += len;
        self.batch.files.push(Entry { name, output, len, mtime, listed });
        before
    }

    /// Gives a file back to the driver, unless that has been done already.
    pub fn give_back(&mut self, number: u64, written: Option<Written>) {
        if let Some(found) = self.pending.remove(&number) {
            // If the driver has ended, nobody needs it.
            let _ = self.back.send(Returned { found, written });
        }
    }

    /// Keeps what the output of a file replaces, if the user wants that. Returns why it must not be replaced.
    pub fn replace(&self, number: u64) -> Option<ReportedFailure> {
        let task = &self.pending.get(&number)?.task;
        let selection = task.folder.tree().selection.as_ref()?;
        let kept = selection.replace(task.node?, task.handles.output(), &task.output_name);
        let kept = kept.and_then(|()| selection.replaced().map_err(Error::write));
        let at = |e| Failure::at(&task.folder.mirrored(&task.output_name), e);
        kept.map_err(at).as_ref().err().map(ReportedFailure::from)
    }
}
