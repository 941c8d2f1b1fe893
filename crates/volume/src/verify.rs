//! Checks a whole volume: every name, folder, link, extended attribute and chunk, on several threads.

use crate::error::{Result, VolumeError};
use crate::store::Store;
use crate::tree::{Kind, ROOT, Tree};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// How many bytes of a file are read at once.
const WINDOW: usize = 1 << 20;
/// How many damaged chunks of one file are named. More are only counted.
const NAMED: usize = 8;

/// The result of checking a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The folders, without the root.
    pub folders: u64,
    /// The regular files that are whole and authentic.
    pub files: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// The entries that are damaged or could not be read. Names that cannot be decrypted are not among them.
    pub failed: u64,
    /// The files that the table of versions has and that are not there.
    pub missing: u64,
}

/// Receives what [`verify`] finds, from all of its threads.
pub trait Findings: Sync {
    /// A file of `bytes` bytes is whole and authentic.
    fn whole(&self, path: &Path, bytes: u64);
    /// An entry is damaged, or could not be read.
    fn failed(&self, path: &Path, error: &VolumeError);
    /// More plaintext has been checked: `bytes` bytes.
    fn advance(&self, bytes: u64);
}

/// Checks everything in a volume. Nothing may change it meanwhile. Damage is reported and does not end the check.
///
/// Entries whose names cannot be decrypted are reported by the tree's `on_damage`.
#[must_use]
pub fn verify(tree: &Tree, store: &Store, threads: usize, findings: &dyn Findings) -> Verified {
    store.count_files();
    let work = Work::default();
    work.push(vec![Task { number: ROOT, path: PathBuf::new(), is_folder: true }]);
    let run = || {
        let mut sum = Verified::default();
        while let Some(task) = work.next() {
            check(tree, store, &task, &work, findings, &mut sum);
            if task.number != ROOT {
                tree.forget(task.number, 1);
            }
            work.done();
        }
        sum
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut sum = run();
        for other in others {
            let found = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum.folders += found.folders;
            sum.files += found.files;
            sum.bytes += found.bytes;
            sum.failed += found.failed;
        }
        sum.missing = store.missing();
        sum
    })
}

/// A folder or a file that is to be checked, and that the tree has looked up.
struct Task {
    number: u64,
    path: PathBuf,
    is_folder: bool,
}

fn check(tree: &Tree, store: &Store, task: &Task, work: &Work, findings: &dyn Findings, sum: &mut Verified) {
    let checked = if task.is_folder {
        folder(tree, task, work, findings, sum)
    } else {
        file(tree, store, task, findings).map(|bytes| {
            sum.files += 1;
            sum.bytes += bytes;
            findings.whole(&task.path, bytes);
        })
    };
    if let Err(error) = checked {
        sum.failed += 1;
        findings.failed(&task.path, &error);
    }
}

fn folder(tree: &Tree, task: &Task, work: &Work, findings: &dyn Findings, sum: &mut Verified) -> Result<()> {
    let listing = tree.list(task.number)?;
    attributes(tree, task.number, [0; 16])?;
    sum.folders += u64::from(task.number != ROOT);
    let mut tasks = Vec::new();
    for index in 0..listing.len() {
        let entry = match tree.entry(&listing, index) {
            Ok(Some(entry)) => entry,
            // A name that does not decrypt has been reported.
            Ok(None) => continue,
            Err(error) => {
                sum.failed += 1;
                findings.failed(&task.path, &error);
                continue;
            }
        };
        let path = task.path.join(OsStr::from_bytes(&entry.name));
        let looked_up = tree.lookup_entry(&listing, index).and_then(|attr| match attr.kind {
            Kind::Folder | Kind::File => {
                tasks.push(Task { number: attr.number, path: path.clone(), is_folder: attr.kind == Kind::Folder });
                Ok(())
            }
            kind => {
                let read = if kind == Kind::Link { tree.readlink(attr.number).map(drop) } else { Ok(()) };
                tree.forget(attr.number, 1);
                read
            }
        });
        if let Err(error) = looked_up {
            sum.failed += 1;
            findings.failed(&path, &error);
        }
    }
    work.push(tasks);
    Ok(())
}

fn file(tree: &Tree, store: &Store, task: &Task, findings: &dyn Findings) -> Result<u64> {
    let backing = store.open_file(tree.open_file(task.number, false)?)?;
    attributes(tree, task.number, backing.id())?;
    let len = backing.len();
    let chunk_len = store.chunk_len();
    let (mut at, mut damaged) = (0, Vec::new());
    let mut others = 0;
    let mut plain = Zeroizing::new(vec![0; WINDOW.max(chunk_len)]);
    while at < len {
        // Holes cannot be damaged, and may be long.
        let data = backing.seek_data(at)?;
        findings.advance(data - at);
        at = data;
        let window = WINDOW.max(chunk_len) as u64;
        match backing.read_into(at, &mut plain) {
            Ok(_) => {}
            Err(VolumeError::Damaged(_)) => {
                for chunk in at / chunk_len as u64..(at + window).min(len).div_ceil(chunk_len as u64) {
                    match backing.read_into(chunk * chunk_len as u64, &mut plain[..chunk_len]) {
                        Err(VolumeError::Damaged(_)) if damaged.len() < NAMED => damaged.push(chunk.to_string()),
                        Err(VolumeError::Damaged(_)) => others += 1,
                        read => _ = read?,
                    }
                }
            }
            Err(error) => return Err(error),
        }
        findings.advance(window.min(len - at));
        at += window;
    }
    if damaged.is_empty() {
        return Ok(len);
    }
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    let what = if store.has_versions() { "damaged or old" } else { "damaged" };
    Err(VolumeError::Damaged(format!("{what} in chunk {}{more}", damaged.join(", "))))
}

fn attributes(tree: &Tree, number: u64, file: [u8; 16]) -> Result<()> {
    for name in tree.list_xattrs(number, || Ok(file))? {
        tree.get_xattr(number, &name, || Ok(file))?;
    }
    Ok(())
}

/// What is still to be done. It is a stack, so that folders are finished one after another and few wait.
#[derive(Default)]
struct Work {
    unfinished: Mutex<Unfinished>,
    changed: Condvar,
}

#[derive(Default)]
struct Unfinished {
    tasks: Vec<Task>,
    /// The tasks that threads are working on, which may add more.
    running: usize,
}

impl Work {
    fn push(&self, mut tasks: Vec<Task>) {
        self.lock().tasks.append(&mut tasks);
        self.changed.notify_all();
    }

    /// The next task; `None` if there is none and no thread can add one.
    fn next(&self) -> Option<Task> {
        let mut unfinished = self.lock();
        loop {
            if let Some(task) = unfinished.tasks.pop() {
                unfinished.running += 1;
                return Some(task);
            }
            if unfinished.running == 0 {
                return None;
            }
            unfinished = self.changed.wait(unfinished).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        self.lock().running -= 1;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
