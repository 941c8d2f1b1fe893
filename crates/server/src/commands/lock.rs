//! The lock of a folder: one server at a time. A server that ends says so in it, because nobody can ask it any more.

use super::folder::Folder;
use super::{fresh, replaced};
use crate::client::listens;
use crate::manage::backup;
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So long a command is waited for, and a server whose last request has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(20);
/// What a server that ends writes to the lock. It says nothing of a server that was killed, whose lock is free.
const ENDING: &[u8] = b"ending\n";

/// Locks a folder for as long as the file is open, also if the process is killed. What interrupted commands have left is
/// cleared up.
///
/// # Errors
/// If another process has locked it, or its file system has no locks.
pub fn lock(folder: &Folder) -> Outcome<File> {
    let file = open(folder)?;
    if is_locked(folder, &file)? { Ok(file) } else { Err(taken(folder, &file)) }
}

/// Locks a folder as [`lock`] does, and waits for a while if it is only a command that has it, or a server that ends.
/// The requests of that server may take `drain`.
///
/// # Errors
/// Those of [`lock`].
pub fn lock_soon(folder: &Folder, drain: Duration, verbosity: Verbosity) -> Outcome<File> {
    let (file, start) = (open(folder)?, Instant::now());
    let mut is_told = verbosity.quiet;
    while !is_locked(folder, &file)? {
        let is_ending = says_ending(&file);
        if is_ending && !is_told {
            complain(waits_for_ending(folder));
            is_told = true;
        }
        let serves = !is_ending && listens(folder).unwrap_or(false);
        if serves || start.elapsed() >= patience(is_ending, drain) {
            return Err(taken(folder, &file));
        }
        sleep(PAUSE);
    }
    Ok(file)
}

/// How long whoever has the lock is waited for.
fn patience(is_ending: bool, drain: Duration) -> Duration {
    if is_ending { PATIENCE.saturating_add(drain) } else { PATIENCE }
}

/// What whoever waits for a server that ends says of it.
pub fn waits_for_ending(folder: &Folder) -> String {
    format!("{}: waiting for the server that is ending here", shown(folder.path()))
}

/// Says in a lock that its server ends.
pub fn say_ending(lock: &File) {
    // Without it, others know less of this server. The second lock is of the kind that others can ask about.
    let _ = fcntl_lock(lock, FlockOperation::NonBlockingLockExclusive);
    let _ = lock.write_all_at(ENDING, 0);
}

/// Whether a server ends in a folder. Nothing is written or locked, so that a server can start at the same moment.
pub fn is_ending(folder: &Folder) -> bool {
    let Ok(file) = File::open(path(folder)) else { return false };
    says_ending(&file) && matches!(fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)), Ok(Some(_)))
}

/// Whether a server has said in a lock that it ends.
fn says_ending(lock: &File) -> bool {
    let mut text = [0; ENDING.len()];
    lock.read_exact_at(&mut text, 0).is_ok() && text == ENDING
}

fn path(folder: &Folder) -> PathBuf {
    folder.path().join("lock")
}

fn open(folder: &Folder) -> Outcome<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let path = path(folder);
    options.open(&path).map_err(|e| Failure::at(&path, Error::write(e)))
}

/// Locks a file, unless another process has locked it.
fn is_locked(folder: &Folder, file: &File) -> Outcome<bool> {
    let at = |error: io::Error| Failure::at(&path(folder), Error::write(error));
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // What another server has said.
            file.set_len(0).map_err(at)?;
            replaced::recover(folder)?;
            fresh::clear_left(folder)?;
            backup::clear(folder.path()).map_err(|e| Failure::at(folder.path(), Error::write(e)))?;
            Ok(true)
        }
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(at(error.into())),
    }
}

fn taken(folder: &Folder, lock: &File) -> Failure {
    let what = if says_ending(lock) { "a server is ending here" } else { "another server runs in this folder" };
    Failure::new(Code::InputOutput, format!("{}: {what}", shown(folder.path())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_server_that_ends_is_waited_for_as_long_as_its_requests_may_take() {
        let drain = Duration::from_secs(1000);
        assert!(patience(true, drain) > drain && patience(false, drain) < drain);
        assert_eq!(patience(true, Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_lock_says_that_a_server_ends_until_it_is_free() {
        let temp = tempfile::TempDir::new().unwrap();
        let folder = Folder::at(temp.path().to_owned());
        assert!(!is_ending(&folder) && !path(&folder).exists());
        let first = lock(&folder).unwrap();
        assert!(!says_ending(&first));
        assert!(lock(&folder).unwrap_err().line().unwrap().ends_with(": another server runs in this folder"));
        say_ending(&first);
        assert!(says_ending(&first));
        assert!(lock(&folder).unwrap_err().line().unwrap().ends_with(": a server is ending here"));
        drop(first);
        assert!(!is_ending(&folder));
        let second = lock(&folder).unwrap();
        assert!(!is_ending(&folder) && !says_ending(&second));
    }

    #[test]
    fn asking_disturbs_nobody_who_locks() {
        let temp = tempfile::TempDir::new().unwrap();
        let folder = Folder::at(temp.path().to_owned());
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    assert!(!is_ending(&folder));
                }
            });
            let locked = (0..2000).all(|_| {
                // What a server has left that was killed while it ended.
                std::fs::write(path(&folder), ENDING).unwrap();
                lock(&folder).is_ok()
            });
            is_done.store(true, Relaxed);
            assert!(locked);
        });
    }
}
