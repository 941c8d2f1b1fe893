//! Ciphers and engines by the command's names, and calls that Ctrl-C can end.

use crate::error::{self, warn};
use phalanx_core::engine::{CpuEngine, Op};
use phalanx_core::{ChunkSize, Progress, Roster, Suite};
use phalanx_host::args::{Cipher, EngineArgs, EngineName};
use phalanx_host::engines::{Crew, Engines, levels};
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_store::Cancellation;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How often a long call checks for signals.
const OFTEN: Duration = Duration::from_millis(50);

/// The suite of a cipher's name.
pub fn suite(cipher: &str) -> PyResult<Suite> {
    by_name("cipher", cipher, &Cipher::ALL, Cipher::name).map(Suite::from)
}

/// The name of a suite's cipher.
pub fn cipher(suite: Suite) -> String {
    let found = Cipher::ALL.into_iter().find(|cipher| Suite::from(*cipher) == suite);
    found.map_or_else(String::new, |cipher| cipher.name().to_owned())
}

/// Checks a chunk size in bytes.
pub fn chunk_size(bytes: u64) -> PyResult<ChunkSize> {
    let wrong = || PyValueError::new_err("chunk_size is a power of two from 4096 to 16777216");
    ChunkSize::new(bytes).ok_or_else(wrong)
}

fn by_name<T: Copy>(what: &str, name: &str, all: &[T], name_of: fn(T) -> &'static str) -> PyResult<T> {
    all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name_of(*one)).collect();
        PyValueError::new_err(format!("{what} is one of {}", names.join(", ")))
    })
}

fn threads(threads: Option<usize>) -> PyResult<Option<NonZeroUsize>> {
    /// More would only cost memory.
    const MOST: usize = 1024;
    let wrong = || PyValueError::new_err(format!("threads is a number from 1 to {MOST}"));
    let threads = threads.map(|threads| NonZeroUsize::new(threads).filter(|n| n.get() <= MOST).ok_or_else(wrong));
    threads.transpose()
}

/// The engines with this name. They are made once for each process, because opening a device takes long.
pub fn engines(py: Python<'_>, engine: &str, most: Option<usize>) -> PyResult<Arc<Engines>> {
    type Made = Mutex<HashMap<(u32, u8, Option<NonZeroUsize>), Arc<Engines>>>;
    static MADE: LazyLock<Made> = LazyLock::new(Made::default);
    let (engine, threads) = (by_name("engine", engine, &EngineName::ALL, EngineName::name)?, threads(most)?);
    let key = (std::process::id(), engine as u8, threads);
    // The lock is held only for a look-up or an insertion.
    let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engines) = made().get(&key) {
        return Ok(engines.clone());
    }
    let make =
        || Engines::new(&EngineArgs { engine, threads, paranoid: false }, Verbosity { quiet: true, verbose: false });
    // Only a driver takes long. The other engines are made attached to the interpreter, because they read the
    // environment, which other threads could change if they ran.
    let engines = if matches!(engine, EngineName::Gpu | EngineName::Hybrid) { py.detach(make) } else { make() };
    warn(py);
    let engines = Arc::new(engines.map_err(|failure| error::of_failure(py, &failure))?);
    Ok(made().entry(key).or_insert(engines).clone())
}

/// The engines that work on groups of messages.
pub struct Team<'e> {
    crew: &'e Crew,
    /// One thread of the CPU. `None` if a single thread cannot work on a group.
    one: Option<Crew>,
    threads: usize,
}

impl<'e> Team<'e> {
    /// The engines for this much work, in bytes. `threads` is the number that the caller has requested. A device may be
    /// opened and measured for this.
    pub fn new(py: Python<'_>, engines: &'e Engines, op: Op, suite: Suite, bytes: u64, threads: Option<usize>) -> Self {
        let crew = py.detach(|| engines.crew(op, suite, Some(bytes)));
        warn(py);
        let one = crew.is_cpu.then(|| engines.small_crew());
        Self { crew, one, threads: threads.unwrap_or_else(cores) }
    }

    /// For about this many groups: how many of them are worked on at the same time, and the engines for each.
    pub fn divided(&self, groups: usize) -> (usize, &Roster) {
        match &self.one {
            // If threads shared each group, they would wait for each other at its end.
            Some(one) if groups >= 2 * self.threads => (self.threads, &one.roster),
            // With few groups, some threads would get none, or would wait for the last group.
            _ => (1, &self.crew.roster),
        }
    }
}

/// How many threads can run at the same time on this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Threads of the CPU: one for each core, unless the caller requests another number.
pub fn cpu(py: Python<'_>, most: Option<usize>) -> PyResult<Roster> {
    let threads = threads(most)?.map_or_else(cores, NonZeroUsize::get);
    let levels = levels().map_err(|failure| error::of_failure(py, &failure))?;
    Ok(Roster::new(&[Arc::new(CpuEngine::parallel(threads, levels))]))
}

/// Runs long work while other Python threads run. Signals of the main thread, such as Ctrl-C, end it with what their handlers
/// raise.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&dyn Progress) -> T + Send) -> PyResult<T> {
    let signals = Signals {
        caller: thread::current().id(),
        last: Mutex::new(Instant::now()),
        raised: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    let done = py.detach(|| work(&signals));
    warn(py);
    // An exception of a signal's handler takes precedence over an error of the work.
    signals.raised.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(done), Err)
}

struct Signals {
    /// The thread that called. No other thread checks for signals.
    caller: ThreadId,
    last: Mutex<Instant>,
    raised: Mutex<Option<PyErr>>,
    is_over: AtomicBool,
}

impl Progress for Signals {
    fn advance(&self, _: u64) {}

    fn is_cancelled(&self) -> bool {
        if thread::current().id() == self.caller && !self.is_over.load(Ordering::Relaxed) {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= OFTEN {
                *last = Instant::now();
                if let Err(raised) = Python::attach(|py| py.check_signals()) {
                    *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
                    self.is_over.store(true, Ordering::Relaxed);
                }
            }
        }
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Runs work that has threads of its own on one more thread, and waits for it. Signals of the main thread end it with what their
/// handlers raise: all its threads learn of them from what `work` is given.
pub fn interruptible_apart<T: Send>(py: Python<'_>, work: impl FnOnce(&Arc<Stop>) -> T + Send) -> PyResult<T> {
    let stop = Arc::new(Stop::default());
    let (done, raised) = py.detach(|| {
        thread::scope(|scope| {
            // It is dropped when the work is over.
            let (working, over) = mpsc::channel::<()>();
            let work = || {
                let _working = working;
                work(&stop)
            };
            let thread = thread::Builder::new().spawn_scoped(scope, work)?;
            let mut raised = Ok(());
            while over.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                if raised.is_ok() {
                    raised = Python::attach(|py| py.check_signals());
                    if raised.is_err() {
                        stop.end();
                    }
                }
            }
            let done = thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
            Ok::<_, std::io::Error>((done, raised))
        })
    })?;
    warn(py);
    raised.map(|()| done)
}

/// Whether work is to end.
#[derive(Default)]
pub struct Stop {
    is_over: AtomicBool,
    /// Ends requests to stores.
    pub requests: Cancellation,
}

impl Stop {
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.requests.cancel();
    }
}

impl Progress for Stop {
    fn advance(&self, _: u64) {}

    fn is_cancelled(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Meter for Stop {
    fn summary(&self, _: u64) -> String {
        String::new()
    }
}
