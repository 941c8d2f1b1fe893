//! Which process does what: the parts of large files and the other tasks are given out in advance or on request.

use crate::args::{Division, RunArgs};
use crate::listed::MOST;
use crate::message::Task;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// The chunks of a large file that no process has taken yet.
pub struct Runs {
    left: Range<u64>,
    ranks: u64,
    /// The fewest and the most chunks of a part.
    least: u64,
    most: u64,
}

/// The shortest part of a large file, in bytes. Working on it takes long compared with a message.
const SHORT: u64 = 16 << 20;
/// The shortest part of any file.
const SHORTEST: u64 = 4 << 20;
/// The longest part, in bytes: no process waits long for its end. With `--resume` parts are shorter, because an
/// interrupted run loses those that are not done.
const LONGEST: u64 = 1 << 30;
const LONGEST_RESUMABLE: u64 = 256 << 20;
/// The most memory for tasks that wait, in bytes.
const ROOM: usize = 16 << 20;

impl Runs {
    pub fn new(of: Range<u64>, chunk_len: u64, ranks: usize, resumes: bool) -> Self {
        let chunks = of.end - of.start;
        let least_of = |bytes: u64| (bytes / chunk_len).max(1);
        let ranks = ranks as u64;
        let longest = if resumes { LONGEST_RESUMABLE } else { LONGEST };
        let least = (chunks / (2 * ranks)).clamp(least_of(SHORTEST), least_of(SHORT));
        // The nonces and tags of more chunks would not go to rank 0, and would have to be read again.
        Self { left: of, ranks, least, most: least_of(longest).min(MOST) }
    }

    /// The next part: half of each process's share of what is left, so that all end at about the same time.
    pub fn next(&mut self) -> Option<Range<u64>> {
        let left = self.left.end - self.left.start;
        let len = (left / (2 * self.ranks)).clamp(self.least, self.most).min(left);
        let start = self.left.start;
        self.left.start += len;
        (len > 0).then(|| start..start + len)
    }

    /// Divides all chunks into equal parts, one for each process. If there are too few chunks, some parts are empty.
    pub fn equal(of: Range<u64>, ranks: usize) -> Vec<Range<u64>> {
        let (chunks, ranks) = (of.end - of.start, ranks as u64);
        let bound = |rank: u64| of.start + (u128::from(chunks) * u128::from(rank) / u128::from(ranks)) as u64;
        (0..ranks).map(|rank| bound(rank)..bound(rank + 1)).collect()
    }
}

/// The longest pages of memory by which file systems keep what a machine has written.
const PAGE: u64 = 64 << 10;

/// The chunks that may share a page which two machines have written to: where the parts of two meet, and around that.
pub fn edges(borders: impl Iterator<Item = u64>, chunk_len: u64, chunks: u64) -> Vec<u64> {
    let around = PAGE.div_ceil(chunk_len);
    let all: BTreeSet<u64> =
        borders.flat_map(|border| border.saturating_sub(around)..(border + around).min(chunks)).collect();
    all.into_iter().collect()
}

/// The parts of a large file that no process has taken yet.
pub enum Parts {
    Dynamic(Runs),
    /// One for each process.
    Static(Vec<Option<Range<u64>>>),
}

impl Parts {
    pub fn new(run: &RunArgs, of: Range<u64>, chunk_len: u64, ranks: usize, resumes: bool) -> Self {
        match run.division {
            Division::Dynamic => Parts::Dynamic(Runs::new(of, chunk_len, ranks, resumes)),
            Division::Static => {
                let runs = Runs::equal(of, ranks).into_iter();
                Parts::Static(runs.map(|run| Some(run).filter(|run| !run.is_empty())).collect())
            }
        }
    }

    /// The next part for a process.
    pub fn next(&mut self, rank: usize) -> Option<Range<u64>> {
        match self {
            Parts::Dynamic(runs) => runs.next(),
            Parts::Static(runs) => runs[rank].take(),
        }
    }

    /// Whether so much is left that a process may have two parts at once.
    pub fn are_many(&self) -> bool {
        match self {
            Parts::Dynamic(runs) => (runs.left.end - runs.left.start) / runs.ranks > 2 * runs.least,
            Parts::Static(_) => false,
        }
    }

    /// Whether all are taken.
    pub fn are_taken(&self) -> bool {
        match self {
            Parts::Dynamic(runs) => runs.left.is_empty(),
            Parts::Static(runs) => runs.iter().all(Option::is_none),
        }
    }
}

/// About how much memory a task takes, in bytes.
fn room(task: &Task) -> usize {
    match task {
        Task::Files { folder, files, .. } => {
            let of_file = |file: &crate::message::Entry| {
                size_of::<crate::message::Entry>() + 32 + file.name.len() + file.output.as_ref().map_or(0, Vec::len)
            };
            128 + folder.len() + files.iter().map(of_file).sum::<usize>()
        }
        Task::Folder { folder, .. } => 128 + folder.len(),
        _ => 512,
    }
}

/// The tasks that no process has taken yet.
pub struct Tasks {
    division: Division,
    /// About how much memory they take, in bytes.
    memory: usize,
    /// The tasks that only one process may do, for each process.
    pinned: Vec<VecDeque<Task>>,
    /// How many bytes have been given to each process in advance.
    given: Vec<u64>,
    /// Folders. They come first, and the last one found before the others, so that few wait.
    folders: Vec<Task>,
    large: VecDeque<Task>,
    batches: VecDeque<Task>,
}

impl Tasks {
    pub fn new(division: Division, ranks: usize) -> Self {
        Self {
            division,
            memory: 0,
            pinned: (0..ranks).map(|_| VecDeque::new()).collect(),
            given: vec![0; ranks],
            folders: Vec::new(),
            large: VecDeque::new(),
            batches: VecDeque::new(),
        }
    }

    /// Whether there is room for more. If not, the process that finds a task does it.
    pub fn have_room(&self) -> bool {
        self.memory < ROOM
    }

    pub fn are_empty(&self) -> bool {
        let is_any = !self.folders.is_empty() || !self.large.is_empty() || !self.batches.is_empty();
        !is_any && self.pinned.iter().all(VecDeque::is_empty)
    }

    /// Adds a task for one process. It comes before all others.
    pub fn pin(&mut self, rank: usize, task: Task) {
        self.memory += room(&task);
        self.pinned[rank].push_front(task);
    }

    /// Adds a task for any process.
    pub fn add(&mut self, task: Task) {
        self.memory += room(&task);
        let bytes = match &task {
            Task::Files { files, .. } => files.iter().map(|file| file.len.max(1 << 16)).sum(),
            _ => 0,
        };
        if self.division == Division::Static && !matches!(task, Task::Begin { .. }) {
            let rank = (0..self.given.len()).min_by_key(|rank| self.given[*rank]).unwrap_or(0);
            // A folder takes some time too.
            self.given[rank] += bytes.max(1 << 16);
            self.pinned[rank].push_back(task);
            return;
        }
        match task {
            Task::Folder { .. } => self.folders.push(task),
            Task::Begin { .. } => self.large.push_back(task),
            task => self.batches.push_back(task),
        }
    }

    /// Whether there is a task for this process alone.
    pub fn has_pinned(&self, rank: usize) -> bool {
        !self.pinned[rank].is_empty()
    }

    /// A task for this process alone.
    pub fn pinned(&mut self, rank: usize) -> Option<Task> {
        let task = self.pinned[rank].pop_front();
        self.taken(task)
    }

    fn taken(&mut self, task: Option<Task>) -> Option<Task> {
        self.memory -= task.as_ref().map_or(0, room);
        task
    }

    /// A batch of files, if so many are left that a process may have two at once.
    pub fn more(&mut self) -> Option<Task> {
        let task = if self.batches.len() > 2 * self.given.len() { self.batches.pop_front() } else { None };
        self.taken(task)
    }

    /// A task for any process. A large file is begun only with `begins`.
    pub fn any(&mut self, begins: bool) -> Option<Task> {
        let large = || if begins { self.large.pop_front() } else { None };
        let task = self.folders.pop().or_else(large).or_else(|| self.batches.pop_front());
        self.taken(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Entry;

    #[test]
    fn parts_shrink_and_cover_everything() {
        for (chunks, ranks) in [(1, 5), (107, 31), (10_240, 2), (4 << 20, 1000)] {
            let mut runs = Runs::new(0..chunks, 1 << 20, ranks, false);
            let (mut end, mut last) = (0, u64::MAX);
            while let Some(run) = runs.next() {
                assert_eq!(run.start, end);
                end = run.end;
                assert!(run.end - run.start <= last && run.end - run.start <= 1024);
                last = run.end - run.start;
            }
            assert_eq!(end, chunks);
        }
    }

    #[test]
    fn the_chunks_of_a_part_are_never_too_many_to_be_noted() {
        let mut runs = Runs::new(0..10 << 20, 4096, 2, false);
        let mut parts = std::iter::from_fn(|| runs.next());
        assert!(parts.all(|part| part.end - part.start <= MOST));
    }

    #[test]
    fn equal_parts_differ_by_one_chunk() {
        for (chunks, ranks) in [(0, 3), (2, 5), (107, 31), (u64::MAX / 2, 1000)] {
            let runs = Runs::equal(0..chunks, ranks);
            assert_eq!((runs.len(), runs[0].start, runs[ranks - 1].end), (ranks, 0, chunks));
            assert!(runs.windows(2).all(|pair| pair[0].end == pair[1].start));
            let lens = || runs.iter().map(|run| run.end - run.start);
            assert!(lens().max().unwrap() - lens().min().unwrap() <= 1);
        }
    }

    #[test]
    fn all_chunks_of_a_page_in_which_two_parts_meet_are_edges() {
        assert_eq!(edges([7].into_iter(), 1 << 20, 10), [6, 7]);
        assert_eq!(edges([7].into_iter(), 64 << 10, 10), [6, 7]);
        assert_eq!(edges([100].into_iter(), 4 << 10, 1000), (84..116).collect::<Vec<u64>>());
        // Each only once and in order, and none that the file does not have.
        assert_eq!(edges([4, 10].into_iter(), 4 << 10, 20), (0..20).collect::<Vec<u64>>());
        assert_eq!(edges(std::iter::empty(), 4 << 10, 20), [0; 0]);
    }

    #[test]
    fn files_are_given_out_by_their_lengths() {
        let batch = |len| {
            let entry = Entry { name: Vec::new(), output: None, len, mtime: (0, 0), listed: None };
            Task::Files { tree: None, folder: Vec::new(), files: vec![entry] }
        };
        let mut tasks = Tasks::new(Division::Static, 3);
        [9, 5, 5, 3, 4].into_iter().for_each(|len| tasks.add(batch(len << 20)));
        let mut sums: Vec<u64> = (0..3).map(|rank| tasks.given[rank] >> 20).collect();
        sums.sort_unstable();
        assert_eq!(sums, [8, 9, 9]);
        assert!(tasks.any(true).is_none() && !tasks.are_empty());
        while tasks.pinned(0).or_else(|| tasks.pinned(1)).or_else(|| tasks.pinned(2)).is_some() {}
        assert!(tasks.are_empty() && tasks.memory == 0);
    }

    #[test]
    fn folders_come_before_large_files_and_those_before_small_ones() {
        let mut tasks = Tasks::new(Division::Dynamic, 2);
        tasks.add(Task::Files { tree: None, folder: Vec::new(), files: Vec::new() });
        let location =
            crate::message::Location { tree: None, folder: Vec::new(), name: Vec::new(), output: None, listed: None };
        tasks.add(Task::Begin { file: 1, location });
        tasks.add(Task::Folder { tree: 0, folder: Vec::new() });
        assert!(matches!(tasks.any(true), Some(Task::Folder { .. })));
        assert!(matches!(tasks.any(false), Some(Task::Files { .. })));
        assert!(tasks.any(false).is_none());
        assert!(matches!(tasks.any(true), Some(Task::Begin { .. })));
    }
}
