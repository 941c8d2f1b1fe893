//! What a view writes to its log, and the errors that programs get.

use super::Tell;
use phalanx_core::Error;
use phalanx_host::lock::lock;
use phalanx_host::mirror::check::Wrong;
use rustix::io::Errno;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How many lines of the log are remembered, so that they are not repeated.
const MOST_TOLD: usize = 4096;

/// The log of a view.
pub struct Report {
    /// The path of what is shown.
    root: PathBuf,
    log: Tell,
    told: Mutex<HashSet<String>>,
}

impl Report {
    pub fn new(root: &Path, log: Tell) -> Self {
        Self { root: root.to_owned(), log, told: Mutex::default() }
    }

    /// Writes a line to the log, once.
    pub fn tell(&self, line: &str) {
        let mut told = lock(&self.told);
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        if told.insert(line.to_owned()) {
            drop(told);
            (self.log)(line);
        }
    }

    /// The error for what does not belong to the mirror. The log has what is wrong.
    pub fn wrong(&self, path: &Path, wrong: &Wrong) -> io::Error {
        self.tell(&format!("{}: {}", path.display(), wrong.text(&self.root)));
        Errno::IO.into()
    }

    /// The error number for a program. The log has the error itself.
    pub fn failed(&self, path: &Path, error: &Error) -> io::Error {
        self.tell(&format!("{}: {error}", path.display()));
        match error {
            Error::NoKey { .. } | Error::WrongKey | Error::KeysRefused { .. } | Error::KdfLimit(_) => Errno::ACCESS,
            Error::Read(e) => e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
            Error::Memory(_) | Error::KdfMemory(_) => Errno::NOMEM,
            _ => Errno::IO,
        }
        .into()
    }
}
