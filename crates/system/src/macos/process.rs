//! Processes: rustix, and what differs between systems.

use rustix::fs::Mode;
pub use rustix::process::*;
use std::sync::{Mutex, PoisonError};

/// The process's file mode creation mask. The system call can only set it: for a moment, files of other threads are for their
/// owner alone.
#[must_use]
pub fn file_mask() -> u32 {
    /// Held while it is set: otherwise one thread would take the value of another for that of the process.
    static SETTING: Mutex<()> = Mutex::new(());
    let _alone = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    mask.bits().into()
}

/// How many files this process may open at once. `None` if there is no limit.
#[must_use]
pub fn most_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
