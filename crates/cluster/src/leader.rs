//! Rank 0: it has the keys, gives out the tasks, and reports their results to the user.

use crate::args::Plan;
use crate::division::{Parts, Tasks, edges};
use crate::feed::Feed;
use crate::keys::Keys;
use crate::message::name;
use crate::message::{Answer, Body, Done, Holds, Join, Message, Reply, Report, ReportedFailure, Request, Task};
use crate::state::{Doing, Large, Peer, Rank};
use crate::tally::{Failures, Root, Tally};
use crate::worker::{Outbox, Outgoing, reply};
use crate::world::{Pause, World};
use phalanx_core::tree::Recorder;
use phalanx_host::failure::{Code, Outcome};
use phalanx_host::file;
use phalanx_host::lines::complain;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

/// A process at work sends a message this often.
pub const ALIVE: Duration = Duration::from_secs(5);
/// A process that has sent no message for this long is lost.
const LOST: Duration = Duration::from_secs(60);

/// The phases of a run. The last two finish the mirrors of folders.
#[derive(PartialEq, Eq)]
enum Phase {
    Work,
    FinishBelow,
    Finish,
}

/// The work of rank 0 as the leader.
pub struct Leader<'a> {
    world: &'a World,
    plan: &'a Plan,
    keys: Option<&'a Keys>,
    ranks: Vec<Rank>,
    tasks: Tasks,
    large: BTreeMap<u64, Large>,
    next_file: u64,
    tally: Tally,
    /// The trees whose mirrors are to be finished when all files are done.
    mirrors: Vec<u32>,
    phase: Phase,
    /// Whether no new task is given out.
    stops: bool,
    /// The connection to this process's own worker.
    outbox: Arc<Outbox>,
    own_tasks: Option<SyncSender<Task>>,
    /// The files that the driver finds.
    feed: Feed,
}

impl<'a> Leader<'a> {
    #[allow(clippy::too_many_arguments, reason = "what rank 0 has prepared")]
    pub fn new(
        world: &'a World,
        plan: &'a Plan,
        keys: Option<&'a Keys>,
        peers: Vec<Peer>,
        outbox: Arc<Outbox>,
        own_tasks: SyncSender<Task>,
        feed: Feed,
        failures: Arc<Failures>,
    ) -> Self {
        let rank =
            |peer| Rank { peer, doing: VecDeque::new(), idle: None, silent: None, busy: 0, talked: 0, memory: 0 };
        Self {
            world,
            plan,
            keys,
            tasks: Tasks::new(plan.run.division, peers.len()),
            ranks: peers.into_iter().map(rank).collect(),
            large: BTreeMap::new(),
            next_file: 0,
            tally: Tally::new(plan, failures),
            mirrors: Vec::new(),
            phase: Phase::Work,
            stops: false,
            outbox,
            own_tasks: Some(own_tasks),
            feed,
        }
    }

    /// Adds the tasks for the paths on the command line. `roots` are the roots of the trees, by their numbers.
    pub fn begin(&mut self, tasks: Vec<Task>, files: u64, bytes: u64, roots: BTreeMap<u32, Root>) {
        self.tally.expect(files, bytes);
        tasks.into_iter().for_each(|task| self.add(task));
        let are_finished = roots.iter().filter(|(_, root)| root.output.is_some() && !root.is_walked);
        self.mirrors = are_finished.map(|(tree, _)| *tree).collect();
        self.tally.note(roots);
    }

    fn add(&mut self, mut task: Task) {
        if let Task::Begin { file, .. } = &mut task {
            self.next_file += 1;
            *file = self.next_file;
        }
        self.tasks.add(task);
    }

    /// Leads until everything is done.
    pub fn lead(mut self, out: &Receiver<Outgoing>) -> Outcome {
        let mut pause = Pause::new();
        let mut last = Instant::now();
        loop {
            let mut is_quiet = true;
            // No more at once, so that all get tasks in between.
            for _ in 0..self.ranks.len() {
                let Some((from, message)) = self.world.take::<Message>() else { break };
                is_quiet = false;
                let Some(message) = message else { self.lose(from, "sent a message that cannot be read") };
                self.receive(from, message);
            }
            let wait = if is_quiet { pause.next() } else { Duration::ZERO };
            if let Ok(first) = out.recv_timeout(wait) {
                is_quiet = false;
                let message = self.outbox.message(Some(first), out);
                let Some(message) = message else { self.lose(0, "the job ends") };
                self.receive(0, message);
            }
            is_quiet &= !self.fill();
            if !is_quiet {
                pause = Pause::new();
            }
            self.assign();
            if self.is_over() {
                break;
            }
            // If this process was stopped for a while, the others were not silent for all that time.
            let passed = last.elapsed().min(Duration::from_secs(1));
            last = Instant::now();
            self.listen(passed);
            self.tally.show();
        }
        self.end();
        let hosts: Vec<&str> = self.ranks.iter().map(|rank| &*rank.peer.host).collect();
        self.tally.finish(&hosts, !self.stops)
    }

    /// Makes tasks of the files that the driver finds, as long as there is room. Returns whether it found some.
    fn fill(&mut self) -> bool {
        let mut is_any = false;
        while !self.stops && self.tasks.have_room() {
            let (task, files, bytes) = self.feed.next(self.tasks.are_empty());
            is_any |= files > 0;
            self.tally.expect(files, bytes);
            let Some(task) = task else { break };
            self.add(task);
        }
        is_any
    }

    fn send(&mut self, to: usize, answer: Answer) {
        if to != 0 {
            self.world.send(to, &answer);
            return;
        }
        match (answer, &self.own_tasks) {
            // The thread ends only when the channel does, so this does not fail.
            (Answer::Task { task, .. }, Some(own)) => drop(own.send(*task)),
            (Answer::Replies(replies), _) => self.outbox.answer(replies),
            (Answer::End, _) => self.own_tasks = None,
            _ => {}
        }
    }

    fn receive(&mut self, from: usize, message: Message) {
        self.ranks[from].silent = Some(Duration::ZERO);
        self.ranks[from].talked = message.talked;
        self.ranks[from].memory = message.memory;
        self.tally.advance(message.advanced);
        match message.body {
            Body::Alive | Body::Hello(_) => self.send(from, Answer::GoOn),
            Body::Requests(requests) => {
                let replies = requests.into_iter().map(|(n, request)| (n, self.answer(from, request))).collect();
                self.send(from, Answer::Replies(replies));
            }
            Body::Unfit(failure) => {
                self.stops = true;
                self.fail(from, &failure);
                self.ranks[from].idle = Some(Instant::now());
            }
            Body::More => {
                let answer = self.another(from).map(|task| Answer::Task { task: Box::new(task), waited: 0 });
                self.send(from, answer.unwrap_or(Answer::GoOn));
            }
            Body::Ready(done) => {
                let rank = &mut self.ranks[from];
                let task = rank.doing.pop_front();
                rank.busy += done.busy;
                if rank.doing.is_empty() {
                    rank.idle = Some(Instant::now());
                } else {
                    self.send(from, Answer::GoOn);
                }
                if let Some(task) = task {
                    self.done(from, task, *done);
                }
            }
        }
    }

    fn answer(&mut self, from: usize, request: Request) -> Reply {
        match request {
            Request::New { len } => reply(self.keys().make(len)),
            Request::Open { header, path } => reply(self.keys().open(&header, || PathBuf::from(name(&path)))),
            Request::Replace { numbers } => {
                Reply::Replaced(numbers.into_iter().map(|number| self.feed.replace(number)).collect())
            }
            Request::Report(report) => {
                self.record(from, *report);
                Reply::Taken(true)
            }
            Request::Offer { tasks, files, bytes } => {
                self.tally.expect(files, bytes);
                let has_room = self.tasks.have_room();
                // Large files are always taken, because they are few.
                let taken = tasks.into_iter().filter(|task| has_room || matches!(task, Task::Begin { .. }));
                taken.for_each(|task| self.add(task));
                Reply::Taken(has_room)
            }
        }
    }

    fn keys(&self) -> &'a Keys {
        self.keys.expect("nobody asks for keys in a dry run")
    }

    fn fail(&mut self, from: usize, failure: &ReportedFailure) {
        let host = &self.ranks[from].peer.host;
        self.tally.fail(&format!("{host} (rank {from}): {}", failure.line), failure.hint.as_deref(), failure.code);
    }

    fn record(&mut self, from: usize, report: Report) {
        report.failures.iter().for_each(|failure| self.fail(from, failure));
        report.written.iter().for_each(|written| self.feed.give_back(written.number, Some(*written)));
        self.tally.record(report);
    }

    /// Records that a task is done, and does what follows from it.
    fn done(&mut self, from: usize, task: Doing, done: Done) {
        let Done { mut report, begun, was_done, lost, heads, .. } = done;
        let failed = !report.failures.is_empty();
        if let Doing::Part(file, ..) | Doing::Leave(file) = task
            && self.large.get(&file).is_some_and(|large| large.failed)
        {
            // The file's failure has been reported already.
            report.failures.clear();
        }
        self.record(from, report);
        match task {
            Doing::Begin(file, number) => match begun {
                Some((join, synced)) => self.divide(file, from, join, synced),
                None => number.into_iter().for_each(|number| self.feed.give_back(number, None)),
            },
            Doing::Listed(numbers) => numbers.into_iter().for_each(|number| self.feed.give_back(number, None)),
            Doing::Part(file, start, end) => {
                let Some(large) = self.large.get_mut(&file) else { return };
                large.given -= 1;
                large.was_done += was_done;
                if failed {
                    large.failed = true;
                    large.discards |= lost;
                    large.left = None;
                } else {
                    large.record(start..end, heads.as_ref());
                    large.synced.insert(start, end);
                    self.mark(file);
                }
                self.leave(file);
            }
            Doing::Leave(file) => {
                let Some(large) = self.large.get_mut(&file) else { return };
                large.failed |= failed;
                large.discards |= failed;
                large.leaving = large.leaving.map(|left| left - 1);
                self.leave(file);
            }
            Doing::Commit(file) => {
                let listed = self.large.remove(&file).and_then(|large| large.join.location.listed);
                listed.into_iter().for_each(|listed| self.feed.give_back(listed.number, None));
            }
            Doing::Other => {}
        }
    }

    /// Divides a large file that has been begun.
    fn divide(&mut self, file: u64, owner: usize, join: Join, synced: Option<u64>) {
        let chunk_len = join.chunk_len;
        let chunks = join.plaintext_len.div_ceil(chunk_len).max(1);
        let from = synced.unwrap_or(0);
        let left = Parts::new(&self.plan.run, from..chunks, chunk_len, self.ranks.len(), self.plan.destination.resume);
        let was_done = (from * chunk_len).min(join.plaintext_len);
        self.tally.advance(was_done);
        let is_listed = join.location.listed.is_some();
        let large = Large {
            owner,
            join,
            goes_on: synced.is_some(),
            left: Some(left),
            given: 0,
            parts: BTreeMap::new(),
            leaving: None,
            failed: false,
            discards: false,
            synced: BTreeMap::from([(0, from)]),
            noted: (from, 0),
            was_done,
            recorder: is_listed.then(|| Recorder::new(&())),
        };
        self.large.insert(file, large);
        // Everything may be done already.
        self.leave(file);
    }

    /// From time to time lets the file's owner record how much of it is on the disk.
    fn mark(&mut self, file: u64) {
        const EVERY: u64 = 128 << 20;
        let Some(large) = self.large.get_mut(&file) else { return };
        if !self.plan.destination.resume || !self.plan.destination.sync {
            return;
        }
        let mut first = 0;
        while let Some(end) = large.synced.get(&first).filter(|end| **end > first) {
            first = *end;
        }
        if (first - large.noted.0) * large.join.chunk_len >= EVERY {
            let turn = large.noted.1;
            large.noted = (first, turn + 1);
            self.tasks.pin(large.owner, Task::Mark { file, synced: first, turn });
        }
    }

    /// When all parts of a file are done, lets the processes that did them bring them to the disk. After that, the file
    /// gets its name.
    fn leave(&mut self, file: u64) {
        let Some(large) = self.large.get_mut(&file) else { return };
        if large.given > 0 || large.left.as_ref().is_some_and(|left| !left.are_taken()) {
            return;
        }
        match large.leaving {
            None => {
                let syncs = large.join.location.output.is_some();
                let ranks: BTreeSet<usize> = large.parts.values().copied().collect();
                large.leaving = Some(ranks.len());
                ranks.iter().for_each(|rank| self.tasks.pin(*rank, Task::Leave { file, syncs }));
                if ranks.is_empty() {
                    self.leave(file);
                }
            }
            Some(0) if large.failed => {
                self.tasks.pin(large.owner, Task::Abandon { file, discards: large.discards });
            }
            Some(0) => {
                if large.goes_on {
                    self.tally.went_on(&large.join.location, large.was_done, large.join.plaintext_len);
                }
                let machine = |rank: &usize| self.ranks[*rank].peer.machine;
                let (before, after) = (large.parts.values(), large.parts.iter().skip(1));
                let between = before.zip(after).filter(|(a, (_, b))| machine(a) != machine(b));
                let chunk_len = large.join.chunk_len;
                let chunks = large.join.plaintext_len.div_ceil(chunk_len).max(1);
                let edges = edges(between.map(|(_, (start, _))| *start), chunk_len, chunks);
                let contents = large.recorder.take().and_then(Recorder::contents);
                let holds = contents.map(Holds::from);
                self.tasks.pin(large.owner, Task::Commit { file, edges, holds });
            }
            Some(_) => {}
        }
    }

    /// Gives tasks to the processes that have none.
    fn assign(&mut self) {
        for rank in 0..self.ranks.len() {
            let Some(since) = self.ranks[rank].idle else { continue };
            let Some(task) = self.next_task(rank) else { continue };
            self.ranks[rank].idle = None;
            self.ranks[rank].doing.push_back(Doing::from(&task));
            let waited = since.elapsed().as_micros() as u64;
            if rank == 0 {
                self.outbox.was_idle(waited);
            }
            self.send(rank, Answer::Task { task: Box::new(task), waited });
        }
        if self.ranks[0].doing.len() == 1
            && let Some(task) = self.another(0)
        {
            self.send(0, Answer::Task { task: Box::new(task), waited: 0 });
        }
    }

    /// A task to do after the present one, so that the process need not wait for it. Near the end of the work there is
    /// none, so that all processes end at about the same time.
    fn another(&mut self, rank: usize) -> Option<Task> {
        let is_at_work =
            matches!(self.ranks[rank].doing.front(), Some(Doing::Part(..) | Doing::Listed(_) | Doing::Other));
        if !is_at_work || self.stops || self.tasks.has_pinned(rank) {
            return None;
        }
        let mut large = self.large.iter_mut().filter(|(_, large)| large.left.as_ref().is_some_and(Parts::are_many));
        let part = large.next().and_then(|(file, large)| {
            let run = large.left.as_mut()?.next(rank)?;
            Some(large.part(*file, rank, run))
        });
        let task = part.or_else(|| self.tasks.more())?;
        self.ranks[rank].doing.push_back(Doing::from(&task));
        Some(task)
    }

    fn next_task(&mut self, rank: usize) -> Option<Task> {
        if self.stops {
            return None;
        }
        if let Some(task) = self.tasks.pinned(rank) {
            return Some(task);
        }
        for (file, large) in &mut self.large {
            if let Some(run) = large.left.as_mut().and_then(|left| left.next(rank)) {
                return Some(large.part(*file, rank, run));
            }
        }
        // With --resume, only the process that has the keys begins files.
        let begins = self.large.len() < 2 * self.ranks.len() && (rank == 0 || !self.plan.destination.resume);
        self.tasks.any(begins)
    }

    /// Whether there is nothing left to do. When all files are done, adds the tasks that finish the mirrors of folders.
    fn is_over(&mut self) -> bool {
        if self.ranks.iter().any(|rank| rank.idle.is_none()) {
            return false;
        }
        if self.stops {
            return true;
        }
        if !self.tasks.are_empty() || !self.large.is_empty() || !self.feed.is_over() {
            return false;
        }
        // Folders of a mirror get their permissions from the bottom up, so that none is needed after it has its own.
        let (next, task): (_, fn(u32) -> Task) = match self.phase {
            Phase::Work => (Phase::FinishBelow, |tree| Task::FinishBelow { tree, folder: Vec::new() }),
            Phase::FinishBelow => (Phase::Finish, |tree| Task::Finish { tree, folder: Vec::new() }),
            Phase::Finish => return true,
        };
        self.phase = next;
        self.mirrors.iter().for_each(|tree| self.tasks.add(task(*tree)));
        self.mirrors.is_empty()
    }

    /// Adds to the time for which each process at work has been silent, and ends the job if one is lost.
    fn listen(&mut self, passed: Duration) {
        for rank in 1..self.ranks.len() {
            let it = &mut self.ranks[rank];
            if it.idle.is_none() {
                it.silent = it.silent.map(|silent| silent + passed);
            }
            if it.silent > Some(LOST) {
                self.lose(rank, &format!("no message for {} s: the job ends", LOST.as_secs()));
            }
        }
    }

    /// Ends the job because a process is lost.
    fn lose(&self, rank: usize, why: &str) -> ! {
        complain(format!("{} (rank {rank}): {why}", self.ranks[rank].peer.host));
        let _none_begins = file::remove_unfinished();
        self.world.abort(Code::InputOutput)
    }

    fn end(&mut self) {
        for rank in 0..self.ranks.len() {
            self.send(rank, Answer::End);
        }
        if self.plan.verbosity.verbose {
            for (number, rank) in self.ranks.iter().enumerate() {
                let seconds = |micros: u64| micros as f64 / 1e6;
                let (busy, talked) = (seconds(rank.busy), seconds(rank.talked));
                let spent = format!("{busy:.3} s at work, {talked:.3} s for messages");
                complain(format!("{} (rank {number}): {spent}, {} MiB of memory", rank.peer.host, rank.memory >> 20));
            }
        }
    }
}
