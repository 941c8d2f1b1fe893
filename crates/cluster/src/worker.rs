//! The worker of a process. It asks rank 0 for tasks, one after another. Rank 0 has a worker too.

use crate::args::{Plan, What};
use crate::keys::Keys;
use crate::message::{Body, Done, Message, Reply, Report, ReportedFailure, Request, Secret, Task, Warned, Welcome};
use crate::opened::{Joined, Owned};
use crate::roots::Roots;
use phalanx_core::engine::Engine;
use phalanx_core::file::SharedFile;
use phalanx_core::{Progress, Roster};
use phalanx_host::engines::Crew;
use phalanx_host::failure::Outcome;
use phalanx_host::file::{Carry, Existing, Made, OutputRules};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lock::lock;
use phalanx_host::warnings;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Carries messages from the working threads to the thread that sends them, and the replies back.
pub struct Outbox {
    out: SyncSender<Outgoing>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, SyncSender<Reply>>>,
    /// How many bytes of plaintext were done since the last message.
    advanced: AtomicU64,
    /// How long work has waited for answers, and how much of that for lack of tasks, in microseconds.
    blocked: AtomicU64,
    idle: AtomicU64,
}

/// What a working thread sends.
pub enum Outgoing {
    /// The working thread has panicked.
    Dead,
    Ready(Box<Done>),
    Request(u64, Request),
}

impl Outbox {
    pub fn new() -> (Arc<Self>, Receiver<Outgoing>) {
        let (out, receiver) = sync_channel(64);
        let [next, advanced, blocked, idle] = std::array::from_fn(|_| AtomicU64::new(0));
        let outbox = Self { out, next, waiting: Mutex::default(), advanced, blocked, idle };
        (Arc::new(outbox), receiver)
    }

    /// Sends a request to rank 0, and waits for its reply.
    ///
    /// # Panics
    /// If the thread that sends messages has ended. The process ends too in this case.
    pub fn ask(&self, request: Request) -> Reply {
        let (reply, answered) = sync_channel(1);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.waiting).insert(number, reply);
        let begun = Instant::now();
        self.out.send(Outgoing::Request(number, request)).expect("the messages go on");
        let reply = answered.recv().expect("the messages go on");
        self.blocked.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        reply
    }

    /// Adds a time without a task, in microseconds.
    pub fn was_idle(&self, micros: u64) {
        self.idle.fetch_add(micros, Ordering::Relaxed);
    }

    /// Asks rank 0 for the keys of a file.
    pub fn keys(&self, request: Request) -> Result<SharedFile, ReportedFailure> {
        match self.ask(request) {
            Reply::Keys(secret) => SharedFile::from_bytes(secret.expose()).map_err(ReportedFailure::from),
            Reply::Refused(failure) => Err(failure),
            Reply::Taken(_) | Reply::Replaced(_) => unreachable!("keys were asked for"),
        }
    }

    /// Passes on answers to requests.
    pub fn answer(&self, replies: Vec<(u64, Reply)>) {
        for (number, reply) in replies {
            let waiting = lock(&self.waiting).remove(&number);
            // When the process ends, no thread waits any more.
            let _ = waiting.map(|waiting| waiting.send(reply));
        }
    }

    /// Makes the next message: from `first` and what else waits to be sent, or `Alive` if there is nothing. `None` if
    /// the work has ended with a panic.
    pub fn message(&self, first: Option<Outgoing>, out: &Receiver<Outgoing>) -> Option<Message> {
        let mut requests = Vec::new();
        let mut next = first;
        let body = loop {
            match next {
                Some(Outgoing::Ready(done)) => break Body::Ready(done),
                Some(Outgoing::Dead) => return None,
                Some(Outgoing::Request(number, request)) => requests.push((number, request)),
                None if requests.is_empty() => break Body::Alive,
                None => break Body::Requests(requests),
            }
            next = out.try_recv().ok();
        };
        Some(self.with_body(body))
    }

    /// Makes a message with this body.
    pub fn with_body(&self, body: Body) -> Message {
        let advanced = self.advanced.swap(0, Ordering::Relaxed);
        let talked = self.blocked.load(Ordering::Relaxed).saturating_sub(self.idle.load(Ordering::Relaxed));
        Message { advanced, talked, memory: peak_memory(), body }
    }
}

/// The most memory that this process has used so far, in bytes. 0 if the system does not report it.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).map_or(0, |kib: u64| kib << 10)
}

impl Progress for Outbox {
    fn advance(&self, bytes: u64) {
        self.advanced.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The engines of a process.
pub struct Engines {
    pub threads: usize,
    /// All engines, for large files.
    pub crew: Crew,
    /// The engine for one small file.
    pub single: Vec<Arc<dyn Engine>>,
}

impl Engines {
    pub fn single(&self) -> Roster {
        Roster::new(&self.single)
    }
}

/// The worker of a process.
pub struct Worker<'a> {
    pub plan: &'a Plan,
    pub engines: Engines,
    pub outbox: Arc<Outbox>,
    pub roots: Roots,
    pub carry: Carry,
    /// The user's keys, on rank 0 only.
    pub keys: Option<&'a Keys>,
    /// The files that hold keys, as this machine sees them.
    key_files: KeyFiles,
    /// The warnings that this process has given.
    warned: Mutex<BTreeSet<Warned>>,
    /// The trees in which this process has found something to work on.
    filled: Mutex<BTreeSet<u32>>,
    /// The large files on whose parts this process works.
    pub joined: Mutex<HashMap<u64, Arc<Joined>>>,
    /// The large files that this process has begun.
    pub owned: Mutex<HashMap<u64, Owned>>,
}

impl<'a> Worker<'a> {
    pub fn new(
        plan: &'a Plan,
        engines: Engines,
        outbox: Arc<Outbox>,
        welcome: &Welcome,
        keys: Option<&'a Keys>,
    ) -> Outcome<Self> {
        let carry = match plan.destination.carry {
            Carry::All => Carry::All,
            Carry::New { .. } => Carry::New { umask: welcome.umask },
        };
        let roots = Roots::new(welcome)?;
        let key_files = key_files(plan);
        Ok(Self {
            plan,
            engines,
            outbox,
            roots,
            carry,
            keys,
            key_files,
            warned: Mutex::default(),
            filled: Mutex::default(),
            joined: Mutex::default(),
            owned: Mutex::default(),
        })
    }

    /// Does one task after another, until there are no more. A panic is reported to the thread that sends messages.
    pub fn work(&self, tasks: &Receiver<Task>) {
        if catch_unwind(AssertUnwindSafe(|| self.tasks(tasks))).is_err() {
            let _ = self.outbox.out.send(Outgoing::Dead);
        }
    }

    fn tasks(&self, tasks: &Receiver<Task>) {
        let mut done = Done::default();
        loop {
            if self.outbox.out.send(Outgoing::Ready(Box::new(done))).is_err() {
                return;
            }
            let asked = Instant::now();
            let Ok(task) = tasks.recv() else { return };
            let begun = Instant::now();
            self.outbox.blocked.fetch_add((begun - asked).as_micros() as u64, Ordering::Relaxed);
            done = self.run(task);
            done.busy = begun.elapsed().as_micros() as u64;
        }
    }

    fn run(&self, task: Task) -> Done {
        let mut done = Done::default();
        let failed = match task {
            Task::Begin { file, location } => self.begin(file, &location, &mut done),
            Task::Part { file, join, run, goes_on } => self.part(file, &join, run, goes_on, &mut done),
            Task::Leave { file, syncs } => self.leave(file, syncs),
            Task::Commit { file, edges, holds } => self.commit(file, &edges, holds, &mut done.report),
            Task::Mark { file, synced, turn } => self.mark(file, synced, turn),
            Task::Abandon { file, discards } => {
                self.abandon(file, discards);
                Ok(())
            }
            Task::Files { tree, folder, files } => {
                self.files(tree, &folder, &files, &mut done.report);
                Ok(())
            }
            Task::Folder { tree, folder } => {
                self.list(tree, &folder, &mut done.report);
                Ok(())
            }
            Task::FinishBelow { tree, folder } => {
                self.finish_below(tree, &folder, &mut done.report);
                Ok(())
            }
            Task::Finish { tree, folder } => {
                self.finish(tree, &folder, &mut done.report);
                Ok(())
            }
        };
        done.report.failures.extend(failed.err());
        done
    }

    /// A new list of outputs, for a part of the run. Outputs never replace keys.
    pub fn made(&self) -> Made {
        self.key_files.made()
    }

    /// How existing outputs are treated.
    pub fn existing<'m>(&self, made: &'m Made) -> Existing<'m> {
        self.plan.destination.existing(made)
    }

    /// How outputs are made.
    pub fn rules<'m>(&self, made: &'m Made) -> OutputRules<'m> {
        OutputRules { carry: self.carry, ..self.plan.destination.rules(made) }
    }

    /// Sends a report that has become long, and empties it.
    pub fn flush(&self, report: &mut Report) {
        if report.is_long() {
            self.outbox.ask(Request::Report(Box::new(std::mem::take(report))));
        }
    }

    /// Adds a warning, unless this process has given it already.
    fn warn(&self, report: &mut Report, of: Warned, line: impl FnOnce() -> String) {
        if lock(&self.warned).insert(of) {
            report.warnings.push((of, line()));
        }
    }

    /// Reports that a tree has something to work on, unless this process has done so already.
    pub fn note_filled(&self, tree: u32, report: &mut Report) {
        if lock(&self.filled).insert(tree) {
            report.filled.push(tree);
        }
    }

    /// Warns of permissions of a file or folder that its output does not get.
    pub fn warn_of_special_bits(&self, path: &Path, file: &File, report: &mut Report) {
        if let Some(line) = warnings::special_bits(path, file, self.carry) {
            self.warn(report, Warned::SpecialBits, || line);
        }
    }

    /// Warns if the file with this device and inode holds a key that protects its own tree.
    pub fn warn_of_key(&self, tree: u32, path: impl FnOnce() -> PathBuf, id: (u64, u64), report: &mut Report) {
        if self.is_protecting() && self.key_files.is_in_use(id) {
            let root = self.roots.path(Some(tree), b"", b"");
            self.warn(report, Warned::KeyInside(tree), || warnings::key_inside(&root, &path()));
        }
    }

    /// Asks rank 0 for the keys of the protected file with this header.
    pub fn open(&self, header: &[u8], path: &Path) -> Result<SharedFile, ReportedFailure> {
        let path_bytes = path.as_os_str().as_bytes().to_vec();
        let opened = self.outbox.keys(Request::Open { header: header.to_vec(), path: path_bytes });
        opened.map_err(|failure| failure.placed(path))
    }

    pub fn lock_owned(&self) -> MutexGuard<'_, HashMap<u64, Owned>> {
        lock(&self.owned)
    }

    pub fn is_verifying(&self) -> bool {
        matches!(self.plan.what, What::Verify { .. })
    }

    pub fn is_protecting(&self) -> bool {
        matches!(self.plan.what, What::Protect { .. })
    }
}

/// The files that hold the keys of this run.
pub fn key_files(plan: &Plan) -> KeyFiles {
    match &plan.what {
        What::Protect { keys, .. } => {
            let files = KeyFiles::new(&keys.keys, &[]);
            let is_for_others = !keys.recipients.is_empty() || !keys.recipients_files.is_empty();
            if is_for_others { files.sparing_identities() } else { files }
        }
        What::Unprotect { keys, .. } | What::Verify { keys, .. } => KeyFiles::new(&keys.keys, &keys.identities),
    }
}

/// The reply of rank 0 to a request for keys.
pub fn reply(keys: phalanx_core::Result<SharedFile>) -> Reply {
    match keys {
        Ok(shared) => Reply::Keys(Secret::new(shared.to_bytes())),
        Err(error) => Reply::Refused(ReportedFailure::from(error)),
    }
}
