//! The audit log: a line for each request, which never holds a text.
//!
//! One thread writes the lines of all requests that wait in one go. If the log is required, each of them is answered only
//! when its line is on the disk, and none is served while lines cannot be written.

mod file;
mod line;
mod names;
mod strangers;
mod thread;

pub use line::Entry;
pub use names::Names;

use crate::args::AuditMode;
use crate::refusal::{Kind, Refusal};
use file::Log;
use phalanx_host::failure::Outcome;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use strangers::Strangers;
use thread::Piece;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// The most lines that wait to be written.
const WAITING: usize = 16_384;
/// The most bytes of lines that wait.
const WAITING_BYTES: usize = 16 << 20;
/// The longest that a request waits for its line.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is written of a request. Never a text.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// What was asked for, such as `seal` or `key-rotate`.
    pub action: &'static str,
    /// The name of the key; with several keys, `*`.
    pub key: String,
    /// The names of several keys.
    pub keys: Names,
    /// Whose records they are, if the operator wants that to be written.
    pub users: Names,
    /// The path of a request that is refused before anything is done.
    pub path: String,
    /// How many items there were.
    pub items: u64,
    /// How many of them were refused.
    pub refused: u64,
    /// The bytes of the texts or ciphertexts.
    pub bytes: u64,
}

/// How the audit log is to be written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether it is written, and waited for.
    pub mode: AuditMode,
    /// The file; `None` is standard output.
    pub file: Option<PathBuf>,
    /// Whether names of users are written.
    pub users: bool,
}

/// The audit log.
#[derive(Debug, Default)]
pub struct Audit {
    /// `None` if there is no log.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    required: bool,
    users: bool,
    pieces: SyncSender<Piece>,
    health: Arc<Health>,
    strangers: Strangers,
}

/// What the thread tells of itself.
#[derive(Debug, Default)]
struct Health {
    /// Whether the last lines could not be written.
    broken: AtomicBool,
    /// How often lines could not be written, or found no place to wait.
    failures: AtomicU64,
    /// Lines that found no place to wait, until the log says so.
    lost: AtomicU64,
    /// Whether the file is to be opened again.
    reopens: AtomicBool,
    /// Bytes of lines that wait.
    waiting: AtomicUsize,
}

impl Audit {
    /// Opens the log and starts its thread.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn start(settings: Settings) -> Outcome<Self> {
        if settings.mode == AuditMode::Off {
            return Ok(Self::default());
        }
        let required = settings.mode == AuditMode::Required;
        let log = Log::open(settings.file, required)?;
        let (pieces, waiting) = sync_channel(WAITING);
        let health = Arc::new(Health::default());
        thread::start(log, waiting, health.clone())?;
        Ok(Self {
            open: Some(Open { required, users: settings.users, pieces, health, strangers: Strangers::default() }),
        })
    }

    /// Whether the names of users are written.
    pub fn names_users(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.users)
    }

    /// Refuses to serve if the log is required and cannot be written. It is tried again each time.
    ///
    /// # Errors
    /// If lines still cannot be written.
    pub async fn ready(&self) -> Result<(), Refusal> {
        match &self.open {
            Some(open) if open.required && open.health.broken.load(Relaxed) => open.put(None).await,
            _ => Ok(()),
        }
    }

    /// Writes the line of a request, before its answer is sent.
    ///
    /// # Errors
    /// If it must be written and cannot be.
    pub async fn write(&self, entry: Entry<'_>) -> Result<(), Refusal> {
        let Some(open) = &self.open else { return Ok(()) };
        open.write(&entry, open.strangers.left_out(Instant::now())).await
    }

    /// Writes the line of a request of somebody who is not known, or counts it if there are many.
    ///
    /// # Errors
    /// If it must be written and cannot be.
    pub async fn write_of_stranger(&self, entry: Entry<'_>) -> Result<(), Refusal> {
        let Some(open) = &self.open else { return Ok(()) };
        match open.strangers.admit(Instant::now()) {
            Some(left_out) => open.write(&entry, left_out).await,
            None => Ok(()),
        }
    }

    /// Opens the file again, as after its old one was renamed.
    pub fn reopen(&self) {
        if let Some(open) = &self.open {
            open.health.reopens.store(true, Relaxed);
            // It wakes the thread. If there is no place, it is awake.
            let _ = open.pieces.try_send(Piece { line: None, done: None });
        }
    }

    /// Waits until all lines are written, but not for ever.
    pub async fn finish(&self) {
        let Some(open) = &self.open else { return };
        let (sender, done) = oneshot::channel();
        let left_out = line::left_out(open.strangers.rest());
        if !left_out.is_empty() {
            open.put_soon(left_out);
        }
        let mut last = Piece { line: None, done: Some(sender) };
        let all = async {
            // Lines may have taken all places.
            while let Err(TrySendError::Full(piece)) = open.pieces.try_send(last) {
                last = piece;
                sleep(Duration::from_millis(5)).await;
            }
            let _ = done.await;
        };
        let _ = timeout(PATIENCE, all).await;
    }

    /// Whether nothing is served because the log cannot be written.
    pub fn is_broken(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.required && open.health.broken.load(Relaxed))
    }

    /// How often lines could not be written.
    pub fn failures(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.health.failures.load(Relaxed))
    }
}

impl Open {
    /// Writes a line, after one that says how many lines of strangers were left out.
    async fn write(&self, entry: &Entry<'_>, left_out: u64) -> Result<(), Refusal> {
        let lines = [line::left_out(left_out), entry.line(self.users)].concat();
        if self.required {
            return self.put(Some(lines)).await;
        }
        self.put_soon(lines);
        Ok(())
    }

    /// Writes a line and waits for it. Without a line it finds out whether one can be written.
    async fn put(&self, line: Option<Vec<u8>>) -> Result<(), Refusal> {
        let failed = || Refusal::new(Kind::Unavailable, "the audit log cannot be written");
        let (done, written) = oneshot::channel();
        if !self.pass(line, Some(done)) {
            return Err(failed());
        }
        match timeout(PATIENCE, written).await {
            Ok(Ok(true)) => Ok(()),
            _ => Err(failed()),
        }
    }

    /// Gives a line to the thread, unless too much waits there.
    fn pass(&self, line: Option<Vec<u8>>, done: Option<oneshot::Sender<bool>>) -> bool {
        let bytes = line.as_ref().map_or(0, Vec::len);
        let before = self.health.waiting.fetch_add(bytes, Relaxed);
        let passed = before + bytes <= WAITING_BYTES && self.pieces.try_send(Piece { line, done }).is_ok();
        if !passed {
            self.health.waiting.fetch_sub(bytes, Relaxed);
        }
        passed
    }

    fn put_soon(&self, line: Vec<u8>) {
        if !self.pass(Some(line), None) {
            self.health.lost.fetch_add(1, Relaxed);
            self.health.failures.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
    use std::fs::File;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::thread;

    fn start(file: &Path) -> Audit {
        let started = Audit::start(Settings { mode: AuditMode::On, file: Some(file.into()), users: false });
        started.unwrap_or_else(|_| panic!("no log"))
    }

    async fn write(audit: &Audit) {
        let note = Note { action: "seal", ..Note::default() };
        let (id, caller, remote, method) = ("1", "uid:0", "uid:0", "POST");
        let entry = Entry { id, caller, remote, method, note: &note, status: 200, micros: 9, more: false };
        audit.write(entry).await.unwrap();
    }

    #[tokio::test]
    async fn all_lines_that_found_a_place_are_written_before_the_end() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("log");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Both ends, so that nobody waits for the other one.
        let both = open(&path, OFlags::RDWR, Mode::empty()).unwrap();
        let (audit, reader) = (start(&path), File::open(&path).unwrap());
        drop(both);
        let mut accepted = 0;
        while audit.failures() == 0 {
            write(&audit).await;
            accepted += 1 - audit.failures();
        }
        assert!(accepted > WAITING as u64);
        let mut finish = Box::pin(audit.finish());
        assert!(timeout(Duration::from_millis(100), &mut finish).await.is_err(), "nobody reads");
        let counted = thread::spawn(move || {
            let is_own = |line: &String| line.contains("\"seal\"");
            BufReader::new(reader).lines().map_while(Result::ok).filter(is_own).count() as u64
        });
        (&mut finish).await;
        drop(finish);
        // That closes the file.
        drop(audit);
        assert_eq!(counted.join().unwrap(), accepted);
    }

    #[tokio::test]
    async fn a_log_is_opened_again_when_all_places_are_taken() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("log");
        let audit = start(&path);
        write(&audit).await;
        audit.finish().await;
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        // As if no place were left for a word to the thread.
        audit.open.as_ref().unwrap().health.reopens.store(true, Relaxed);
        write(&audit).await;
        audit.finish().await;
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
    }
}
