//! The thread that writes the audit log.

use super::file::Log;
use super::{Health, line};
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::complain;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The most bytes that are written in one go.
const TOGETHER: usize = 1 << 20;
/// Lines that nobody waits for gather so long, so that the thread is not woken for each of them.
const GATHERING: Duration = Duration::from_millis(2);
/// How often it is said that lines cannot be written.
const OFTEN: Duration = Duration::from_secs(60);

/// A line to be written. Without one it is tried whether lines can be written.
pub struct Piece {
    /// The line.
    pub line: Option<Vec<u8>>,
    /// Receives whether it was written.
    pub done: Option<oneshot::Sender<bool>>,
}

/// Starts the thread, which ends when nobody can send any more.
///
/// # Errors
/// If the system cannot start a thread.
pub fn start(log: Log, waiting: Receiver<Piece>, health: Arc<Health>) -> Outcome {
    let writer = Writer { log, health, lost: 0, told: None };
    let started = std::thread::Builder::new().name("audit".into()).spawn(move || writer.serve(&waiting));
    started.map(drop).map_err(|e| Failure::new(Code::Other, format!("cannot start a thread: {e}")))
}

struct Writer {
    log: Log,
    health: Arc<Health>,
    /// Lines that could not be written, until the log says so.
    lost: u64,
    /// When it was last said that lines cannot be written.
    told: Option<Instant>,
}

impl Writer {
    fn serve(mut self, waiting: &Receiver<Piece>) {
        while let Ok(first) = waiting.recv() {
            if first.done.is_none() {
                sleep(GATHERING);
            }
            if self.health.reopens.swap(false, Relaxed) {
                self.reopen();
            }
            let mut next = Some(first);
            let mut lines = Vec::new();
            let (mut many, mut waiters) = (0, Vec::new());
            while let Some(Piece { line, done }) = next {
                many += u64::from(line.is_some());
                let line = line.unwrap_or_default();
                self.health.waiting.fetch_sub(line.len(), Relaxed);
                lines.extend_from_slice(&line);
                waiters.extend(done);
                next = if lines.len() < TOGETHER { waiting.try_recv().ok() } else { None };
            }
            let is_written = self.write(many, &lines);
            for done in waiters {
                let _ = done.send(is_written);
            }
        }
    }

    /// Writes lines, after one that says how many are missing before them.
    fn write(&mut self, many: u64, lines: &[u8]) -> bool {
        self.lost += self.health.lost.swap(0, Relaxed);
        let broken = self.health.broken.load(Relaxed);
        if lines.is_empty() && self.lost == 0 && !broken {
            return true;
        }
        let gap = if self.lost > 0 || broken { line::gap(self.lost) } else { Vec::new() };
        match self.log.append(&[&gap, lines].concat()) {
            Ok(()) => {
                self.lost = 0;
                self.health.broken.store(false, Relaxed);
                true
            }
            Err(error) => {
                self.lost += many;
                self.health.broken.store(true, Relaxed);
                self.health.failures.fetch_add(1, Relaxed);
                self.complain(&error);
                false
            }
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.told.is_none_or(|told| told.elapsed() >= OFTEN) {
            self.told = Some(Instant::now());
            complain(format!("warning: the audit log cannot be written: {error}"));
        }
    }

    fn reopen(&mut self) {
        if let Err(failure) = self.log.reopen() {
            self.health.failures.fetch_add(1, Relaxed);
            let why = failure.line().unwrap_or("it cannot be opened");
            complain(format!("warning: the old audit log stays open: {why}"));
        }
    }
}
