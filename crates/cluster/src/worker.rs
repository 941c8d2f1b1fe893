//! A process at work: it asks rank 0 for tasks, one after another. Rank 0 has a worker too.

use crate::args::{Plan, What};
use crate::keys::Keys;
use crate::message::{Body, Done, Letter, Reply, Report, Request, Secret, Task, Told, Warned, Welcome};
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

/// What the threads at work hand to the one that sends messages.
pub struct Desk {
    out: SyncSender<Out>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, SyncSender<Reply>>>,
    /// Bytes of plaintext that are done.
    advanced: AtomicU64,
    /// How long work has waited for answers, and how much of that because there was nothing to do, in microseconds.
    blocked: AtomicU64,
    idle: AtomicU64,
}

/// Something to send.
pub enum Out {
    /// The thread at work has panicked.
    Dead,
    Ready(Box<Done>),
    Request(u64, Request),
}

impl Desk {
    pub fn new() -> (Arc<Self>, Receiver<Out>) {
        let (out, receiver) = sync_channel(64);
        let [next, advanced, blocked, idle] = std::array::from_fn(|_| AtomicU64::new(0));
        let desk = Self { out, next, waiting: Mutex::default(), advanced, blocked, idle };
        (Arc::new(desk), receiver)
    }

    /// Asks rank 0 for something.
    ///
    /// # Panics
    /// If the thread that sends messages has ended: so does the process then.
    pub fn ask(&self, request: Request) -> Reply {
        let (reply, answered) = sync_channel(1);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.waiting).insert(number, reply);
        let begun = Instant::now();
        self.out.send(Out::Request(number, request)).expect("the messages go on");
        let reply = answered.recv().expect("the messages go on");
        self.blocked.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        reply
    }

    /// There was nothing to do for so long, in microseconds.
    pub fn was_idle(&self, micros: u64) {
        self.idle.fetch_add(micros, Ordering::Relaxed);
    }

    /// Keys of a file, or why there are none.
    pub fn keys(&self, request: Request) -> Result<SharedFile, Told> {
        match self.ask(request) {
            Reply::Keys(secret) => SharedFile::from_bytes(secret.expose()).map_err(Told::from),
            Reply::Refused(told) => Err(told),
            Reply::Taken(_) => unreachable!("keys were asked for"),
        }
    }

    /// Passes on answers to requests.
    pub fn answer(&self, replies: Vec<(u64, Reply)>) {
        for (number, reply) in replies {
            let waiting = lock(&self.waiting).remove(&number);
            // Nobody waits when the process ends.
            let _ = waiting.map(|waiting| waiting.send(reply));
        }
    }

    /// What is new to send, as a letter: at least `first`. `None` if the work has ended by a panic.
    pub fn letter(&self, first: Option<Out>, out: &Receiver<Out>) -> Option<Letter> {
        let mut requests = Vec::new();
        let mut next = first;
        let body = loop {
            match next {
                Some(Out::Ready(done)) => break Body::Ready(done),
                Some(Out::Dead) => return None,
                Some(Out::Request(number, request)) => requests.push((number, request)),
                None if requests.is_empty() => break Body::Alive,
                None => break Body::Requests(requests),
            }
            next = out.try_recv().ok();
        };
        Some(self.with_body(body))
    }

    /// A letter with this in it.
    pub fn with_body(&self, body: Body) -> Letter {
        let advanced = self.advanced.swap(0, Ordering::Relaxed);
        let talked = self.blocked.load(Ordering::Relaxed).saturating_sub(self.idle.load(Ordering::Relaxed));
        Letter { advanced, talked, memory: peak_memory(), body }
    }
}

/// The most memory that this process has had so far, in bytes, as far as the system tells it.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).map_or(0, |kib: u64| kib << 10)
}

impl Progress for Desk {
    fn advance(&self, bytes: u64) {
        self.advanced.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The engines of a process.
pub struct Engines {
    pub threads: usize,
    /// All of them, for large files.
    pub crew: Crew,
    /// For one small file.
    pub single: Vec<Arc<dyn Engine>>,
}

impl Engines {
    pub fn single(&self) -> Roster {
        Roster::new(&self.single)
    }
}

/// A process at work.
pub struct Worker<'a> {
    pub plan: &'a Plan,
    pub engines: Engines,
    pub desk: Arc<Desk>,
    pub roots: Roots,
    pub carry: Carry,
    /// On rank 0.
    pub keys: Option<&'a Keys>,
    /// The files that hold keys, as this machine sees them.
    key_files: KeyFiles,
    /// What this process has warned of.
    warned: Mutex<BTreeSet<Warned>>,
    /// The trees in which this process has found something to work on.
    filled: Mutex<BTreeSet<u32>>,
    /// The large files that parts are done of here.
    pub joined: Mutex<HashMap<u64, Arc<Joined>>>,
    /// The large files that were begun here.
    pub owned: Mutex<HashMap<u64, Owned>>,
}

impl<'a> Worker<'a> {
    pub fn new(
        plan: &'a Plan,
        engines: Engines,
        desk: Arc<Desk>,
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
            desk,
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
            let _ = self.desk.out.send(Out::Dead);
        }
    }

    fn tasks(&self, tasks: &Receiver<Task>) {
        let mut done = Done::default();
        loop {
            if self.desk.out.send(Out::Ready(Box::new(done))).is_err() {
                return;
            }
            let asked = Instant::now();
            let Ok(task) = tasks.recv() else { return };
            let begun = Instant::now();
            self.desk.blocked.fetch_add((begun - asked).as_micros() as u64, Ordering::Relaxed);
            done = self.run(task);
            done.busy = begun.elapsed().as_micros() as u64;
        }
    }

    fn run(&self, task: Task) -> Done {
        let mut done = Done::default();
        let failed = match task {
            Task::Begin { file, spot } => self.begin(file, &spot, &mut done),
            Task::Part { file, join, run, goes_on } => self.part(file, &join, run, goes_on, &mut done),
            Task::Leave { file, syncs } => self.leave(file, syncs),
            Task::Commit { file, edges } => self.commit(file, &edges, &mut done.report),
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

    /// The outputs of a part of the run, which replace no keys.
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

    /// Sends a report that grows too long.
    pub fn flush(&self, report: &mut Report) {
        if report.is_long() {
            self.desk.ask(Request::Tell(std::mem::take(report)));
        }
    }

    /// Warns of something, unless this process has done so.
    fn warn(&self, report: &mut Report, of: Warned, line: impl FnOnce() -> String) {
        if lock(&self.warned).insert(of) {
            report.warnings.push((of, line()));
        }
    }

    /// Reports that a tree holds something to work on, unless this process has done so.
    pub fn note_filled(&self, tree: u32, report: &mut Report) {
        if lock(&self.filled).insert(tree) {
            report.filled.push(tree);
        }
    }

    /// Warns of permissions that a file or folder has and its output does not get.
    pub fn warn_of_special_bits(&self, path: &Path, file: &File, report: &mut Report) {
        if let Some(line) = warnings::special_bits(path, file, self.carry) {
            self.warn(report, Warned::SpecialBits, || line);
        }
    }

    /// Warns of a tree that holds a key by which it is protected: the file with this device and inode may be one.
    pub fn warn_of_key(&self, tree: u32, path: impl FnOnce() -> PathBuf, id: (u64, u64), report: &mut Report) {
        if self.is_protecting() && self.key_files.is_in_use(id) {
            let root = self.roots.path(Some(tree), b"", b"");
            self.warn(report, Warned::KeyInside(tree), || warnings::key_inside(&root, &path()));
        }
    }

    /// The keys of a protected file whose header this is.
    pub fn open(&self, header: &[u8], path: &Path) -> Result<SharedFile, Told> {
        let path_bytes = path.as_os_str().as_bytes().to_vec();
        let opened = self.desk.keys(Request::Open { header: header.to_vec(), path: path_bytes });
        opened.map_err(|told| told.placed(path))
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

/// The files that hold keys.
pub fn key_files(plan: &Plan) -> KeyFiles {
    match &plan.what {
        What::Protect { keys, .. } => {
            let files = KeyFiles::new(&keys.keys, &[]);
            let is_for_others = !keys.recipients.is_empty() || !keys.recipients_files.is_empty();
            if is_for_others { files.sparing_identities() } else { files }
        }
        What::Unprotect { keys } | What::Verify { keys } => KeyFiles::new(&keys.keys, &keys.identities),
    }
}

/// What rank 0 answers to a request for keys.
pub fn reply(keys: phalanx_core::Result<SharedFile>) -> Reply {
    match keys {
        Ok(shared) => Reply::Keys(Secret::new(shared.to_bytes())),
        Err(error) => Reply::Refused(Told::from(error)),
    }
}
