//! Rank 0: it has the keys, gives out the tasks, and tells the user what became of them.

use crate::args::{Division, Plan};
use crate::division::{Runs, Tasks};
use crate::keys::Keys;
use crate::message::{Answer, Body, Done, Join, Letter, Reply, Report, Request, Task, Told};
use crate::tally::Tally;
use crate::worker::{Desk, Out, name, reply};
use crate::world::{Pause, World};
use phalanx::failure::{Code, Failure, Outcome, complain};
use phalanx_core::file::SharedFile;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

/// As many tasks may wait for each process: more than that are done by whoever finds them.
const ROOM: usize = 64;
/// A process at work sends a message this often.
pub const ALIVE: Duration = Duration::from_secs(5);
/// After so long without a message, a process is lost.
const LOST: Duration = Duration::from_secs(60);

/// What rank 0 knows of a process.
struct Rank {
    host: String,
    /// What it does.
    task: Option<Task>,
    /// Since when it waits for a task.
    idle: Option<Instant>,
    silent: Duration,
    busy: u64,
    talked: u64,
    memory: u64,
}

/// A large file that is being worked on.
struct Large {
    owner: usize,
    join: Join,
    goes_on: bool,
    runs: Option<Runs>,
    /// How many parts are given out, and not done.
    given: usize,
    /// Who has done each part, by its first chunk.
    parts: BTreeMap<u64, usize>,
    /// How many processes have not left it.
    leaving: Option<usize>,
    failed: bool,
    was_done: u64,
}

/// Rank 0 at its work.
pub struct Leader<'a> {
    world: &'a World,
    plan: &'a Plan,
    keys: &'a Keys,
    ranks: Vec<Rank>,
    tasks: Tasks,
    large: BTreeMap<u64, Large>,
    next_file: u64,
    tally: Tally,
    /// The trees whose mirrors are to be finished, when all files are done.
    to_finish: u32,
    /// Nothing new is begun any more.
    stops: bool,
    /// The worker of this process.
    desk: Arc<Desk>,
    own_tasks: Option<SyncSender<Task>>,
}

impl<'a> Leader<'a> {
    pub fn new(
        world: &'a World,
        plan: &'a Plan,
        keys: &'a Keys,
        hosts: Vec<String>,
        desk: Arc<Desk>,
        own_tasks: SyncSender<Task>,
    ) -> Self {
        let rank = |host| Rank { host, task: None, idle: None, silent: Duration::ZERO, busy: 0, talked: 0, memory: 0 };
        Self {
            world,
            plan,
            keys,
            tasks: Tasks::new(plan.run.division, hosts.len()),
            ranks: hosts.into_iter().map(rank).collect(),
            large: BTreeMap::new(),
            next_file: 0,
            tally: Tally::new(plan),
            to_finish: 0,
            stops: false,
            desk,
            own_tasks: Some(own_tasks),
        }
    }

    /// Adds what is named on the command line. There are so many trees with mirrors.
    pub fn begin(&mut self, tasks: Vec<Task>, files: u64, bytes: u64, mirrors: u32) {
        self.tally.expect(files, bytes);
        tasks.into_iter().for_each(|task| self.add(task));
        self.to_finish = mirrors;
    }

    fn add(&mut self, mut task: Task) {
        if let Task::Begin { file, .. } = &mut task {
            self.next_file += 1;
            *file = self.next_file;
        }
        self.tasks.add(task);
    }

    /// Leads until everything is done.
    pub fn lead(mut self, out: &Receiver<Out>) -> Outcome {
        let mut pause = Pause::new();
        let mut last = Instant::now();
        loop {
            let mut is_quiet = true;
            while let Some((from, letter)) = self.world.take::<Letter>() {
                is_quiet = false;
                let Some(letter) = letter else { self.lose(from, "sends what is not understood") };
                self.receive(from, letter);
            }
            if is_quiet {
                let wait = pause.next();
                let first = out.recv_timeout(wait).ok();
                is_quiet = first.is_none();
                let letter = self.desk.letter(first, out, 0);
                self.receive(0, letter);
            }
            if !is_quiet {
                pause = Pause::new();
            }
            self.assign();
            if self.is_over() {
                break;
            }
            // A process that was stopped as a whole has not lost the others.
            let passed = last.elapsed().min(Duration::from_secs(1));
            last = Instant::now();
            self.listen(passed);
            self.tally.show();
        }
        self.end();
        let hosts: Vec<&str> = self.ranks.iter().map(|rank| &*rank.host).collect();
        self.tally.finish(&hosts)
    }

    fn send(&mut self, to: usize, answer: Answer) {
        if to != 0 {
            self.world.send(to, &answer);
            return;
        }
        match (answer, &self.own_tasks) {
            // Its thread ends only when the channel does.
            (Answer::Task { task, .. }, Some(own)) => drop(own.send(*task)),
            (Answer::Replies(replies), _) => self.desk.answer(replies),
            (Answer::End { .. }, _) => self.own_tasks = None,
            _ => {}
        }
    }

    fn receive(&mut self, from: usize, letter: Letter) {
        self.ranks[from].silent = Duration::ZERO;
        self.ranks[from].talked = letter.talked;
        self.ranks[from].memory = letter.memory;
        self.tally.advance(letter.advanced);
        match letter.body {
            Body::Alive | Body::Hello(_) => self.send(from, Answer::GoOn),
            Body::Requests(requests) => {
                let replies = requests.into_iter().map(|(n, request)| (n, self.answer(from, request))).collect();
                self.send(from, Answer::Replies(replies));
            }
            Body::Unfit(told) => {
                self.stops = true;
                self.fail(from, &told);
                self.ranks[from].idle = Some(Instant::now());
            }
            Body::Ready(done) => {
                let task = self.ranks[from].task.take();
                self.ranks[from].idle = Some(Instant::now());
                self.ranks[from].busy += done.busy;
                if let Some(task) = task {
                    self.done(from, task, *done);
                }
            }
        }
    }

    fn answer(&mut self, from: usize, request: Request) -> Reply {
        match request {
            Request::New { len } => reply(self.keys.make(len)),
            Request::Open { header, path } => reply(self.keys.open(&header, || PathBuf::from(name(&path)))),
            Request::Tell(report) => {
                self.record(from, report);
                Reply::Taken(true)
            }
            Request::Offer { tasks, files, bytes } => {
                self.tally.expect(files, bytes);
                let has_room = self.tasks.waiting() < ROOM * self.ranks.len();
                if has_room {
                    tasks.into_iter().for_each(|task| self.add(task));
                }
                Reply::Taken(has_room)
            }
        }
    }

    fn fail(&mut self, from: usize, told: &Told) {
        let host = &self.ranks[from].host;
        self.tally.fail(&format!("{host} (rank {from}): {}", told.line), told.code);
    }

    fn record(&mut self, from: usize, report: Report) {
        report.failures.iter().for_each(|told| self.fail(from, told));
        self.tally.record(report);
    }

    /// A task is done: what follows from it.
    fn done(&mut self, from: usize, task: Task, done: Done) {
        let Done { report, begun, was_done, .. } = done;
        let failed = !report.failures.is_empty();
        self.record(from, report);
        match task {
            Task::Begin { file, .. } => {
                if let Some((join, goes_on)) = begun {
                    self.divide(file, from, join, goes_on);
                }
            }
            Task::Part { file, .. } => {
                let Some(large) = self.large.get_mut(&file) else { return };
                large.given -= 1;
                large.was_done += was_done;
                if failed {
                    large.failed = true;
                    large.runs = None;
                    large.given -= self.tasks.unpin(file);
                }
                self.leave(file);
            }
            Task::Leave { file, .. } => {
                let Some(large) = self.large.get_mut(&file) else { return };
                large.failed |= failed;
                large.leaving = large.leaving.map(|left| left - 1);
                self.leave(file);
            }
            Task::Commit { file, .. } | Task::Abandon { file } => drop(self.large.remove(&file)),
            Task::Files { .. } | Task::Folder { .. } | Task::Finish { .. } => {}
        }
    }

    /// Divides a large file that has been begun.
    fn divide(&mut self, file: u64, owner: usize, join: Join, goes_on: bool) {
        let chunk_log2 = SharedFile::from_bytes(join.shared.expose()).map_or(20, |file| file.header().chunk_log2());
        let chunks = join.plaintext_len.div_ceil(1 << chunk_log2).max(1);
        let mut large = Large {
            owner,
            join,
            goes_on,
            runs: None,
            given: 0,
            parts: BTreeMap::new(),
            leaving: None,
            failed: false,
            was_done: 0,
        };
        match self.plan.run.division {
            Division::Dynamic => large.runs = Some(Runs::new(chunks, 1 << chunk_log2, self.ranks.len())),
            Division::Static => {
                for (rank, run) in Runs::equal(chunks, self.ranks.len()).into_iter().enumerate() {
                    if !run.is_empty() {
                        self.tasks.pin(rank, large.part(file, rank, run));
                    }
                }
            }
        }
        self.large.insert(file, large);
    }

    /// When all parts of a file are done, those who did them bring them to the disk. When they have, it gets its name.
    fn leave(&mut self, file: u64) {
        let Some(large) = self.large.get_mut(&file) else { return };
        if large.given > 0 || large.runs.as_ref().is_some_and(|runs| !runs.are_given()) {
            return;
        }
        match large.leaving {
            None => {
                let syncs = !large.failed && large.join.spot.output.is_some();
                let ranks: BTreeSet<usize> = large.parts.values().copied().collect();
                large.leaving = Some(ranks.len());
                ranks.into_iter().for_each(|rank| self.tasks.pin(rank, Task::Leave { file, syncs }));
            }
            Some(0) if large.failed => self.tasks.pin(large.owner, Task::Abandon { file }),
            Some(0) => {
                if large.goes_on {
                    self.tally.went_on(large.was_done, large.join.plaintext_len);
                }
                let (before, behind) = (large.parts.values(), large.parts.iter().skip(1));
                let between = before.zip(behind).filter(|(a, (_, b))| self.ranks[**a].host != self.ranks[**b].host);
                let edges = between.flat_map(|(_, (start, _))| [start - 1, *start]).collect();
                self.tasks.pin(large.owner, Task::Commit { file, edges });
            }
            Some(_) => {}
        }
    }

    /// Gives tasks to those who have none.
    fn assign(&mut self) {
        for rank in 0..self.ranks.len() {
            let Some(since) = self.ranks[rank].idle else { continue };
            let Some(task) = self.next_task(rank) else { continue };
            self.ranks[rank].idle = None;
            self.ranks[rank].task = Some(task.clone());
            let waited = since.elapsed().as_micros() as u64;
            self.send(rank, Answer::Task { task: Box::new(task), waited });
        }
    }

    fn next_task(&mut self, rank: usize) -> Option<Task> {
        if self.stops {
            return None;
        }
        if let Some(task) = self.tasks.pinned(rank) {
            return Some(task);
        }
        for (file, large) in &mut self.large {
            if let Some(run) = large.runs.as_mut().and_then(Runs::next) {
                return Some(large.part(*file, rank, run));
            }
        }
        // What may have been interrupted is begun by the process that has the keys.
        let begins = self.large.len() < 2 * self.ranks.len() && (rank == 0 || !self.plan.destination.resume);
        self.tasks.any(begins)
    }

    /// Whether there is nothing left to do. The mirrors of folders are finished last.
    fn is_over(&mut self) -> bool {
        if self.ranks.iter().any(|rank| rank.idle.is_none()) {
            return false;
        }
        if self.stops {
            return true;
        }
        if !self.tasks.are_empty() || !self.large.is_empty() {
            return false;
        }
        for tree in 0..std::mem::take(&mut self.to_finish) {
            self.tasks.add(Task::Finish { tree, folder: Vec::new() });
        }
        self.tasks.are_empty()
    }

    /// Notes how long processes at work have been silent.
    fn listen(&mut self, passed: Duration) {
        for rank in 1..self.ranks.len() {
            let it = &mut self.ranks[rank];
            if it.idle.is_none() {
                it.silent += passed;
            }
            if it.silent > LOST {
                self.lose(rank, &format!("no sign of it for {} s: the job ends", LOST.as_secs()));
            }
        }
    }

    /// Ends the job, because a process is lost.
    fn lose(&self, rank: usize, why: &str) -> ! {
        complain(format!("{} (rank {rank}): {why}", self.ranks[rank].host));
        let _none_begins = phalanx_core::file::remove_unfinished();
        self.world.abort(Code::InputOutput)
    }

    fn end(&mut self) {
        for rank in 0..self.ranks.len() {
            let waited = self.ranks[rank].idle.map_or(0, |since| since.elapsed().as_micros() as u64);
            self.send(rank, Answer::End { waited });
        }
        if self.plan.verbosity.verbose {
            for (number, rank) in self.ranks.iter().enumerate() {
                let seconds = |micros: u64| micros as f64 / 1e6;
                let (busy, talked) = (seconds(rank.busy), seconds(rank.talked));
                let spent = format!("{busy:.3} s at work, {talked:.3} s for messages");
                complain(format!("{} (rank {number}): {spent}, {} MiB of memory", rank.host, rank.memory >> 20));
            }
        }
    }
}

impl Large {
    fn part(&mut self, file: u64, rank: usize, run: std::ops::Range<u64>) -> Task {
        self.given += 1;
        self.parts.insert(run.start, rank);
        Task::Part { file, join: Box::new(self.join.clone()), run, goes_on: self.goes_on }
    }
}

/// What a process says that does not fit to this one, if anything.
pub fn misfit(mine: &crate::message::Hello, other: &crate::message::Hello, rank: usize) -> Option<Failure> {
    let why = if mine.version != other.version {
        format!("it runs version {}, and rank 0 version {}", other.version, mine.version)
    } else if mine.args != other.args {
        "it was given other arguments than rank 0".to_owned()
    } else {
        return None;
    };
    Some(Failure::usage(format!("{} (rank {rank}): {why}", other.host)))
}
