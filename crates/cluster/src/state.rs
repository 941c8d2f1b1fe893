//! What rank 0 knows about the processes, and about the large files in work.

use crate::division::Parts;
use crate::message::{Heads, Hello, Join, Task};
use phalanx_core::tree::Recorder;
use phalanx_core::{ChunkHead, Progress};
use phalanx_host::failure::Failure;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// What a process has said about itself in its first message.
pub struct Peer {
    pub host: String,
    pub machine: u64,
}

/// The kind of task that a process works on.
pub enum Doing {
    /// Beginning a large file, with its number if it is listed.
    Begin(u64, Option<u64>),
    Part(u64, u64, u64),
    Leave(u64),
    Commit(u64),
    /// Files of a tree with a manifest, with their numbers.
    Listed(Box<[u64]>),
    Other,
}

impl From<&Task> for Doing {
    fn from(task: &Task) -> Self {
        match task {
            Task::Begin { file, location } => Doing::Begin(*file, location.listed.map(|listed| listed.number)),
            Task::Files { files, .. } if files.iter().any(|file| file.listed.is_some()) => {
                Doing::Listed(files.iter().filter_map(|file| Some(file.listed?.number)).collect())
            }
            Task::Part { file, run, .. } => Doing::Part(*file, run.start, run.end),
            Task::Leave { file, .. } => Doing::Leave(*file),
            Task::Commit { file, .. } | Task::Abandon { file, .. } => Doing::Commit(*file),
            _ => Doing::Other,
        }
    }
}

/// What rank 0 knows about a process.
pub struct Rank {
    pub peer: Peer,
    /// The tasks that it has, two at most. It does them one after the other.
    pub doing: VecDeque<Doing>,
    /// The time since which it has waited for a task.
    pub idle: Option<Instant>,
    /// How long it has been silent. `None` before its first message.
    pub silent: Option<Duration>,
    pub busy: u64,
    pub talked: u64,
    pub memory: u64,
}

/// A large file that is being worked on.
pub struct Large {
    pub owner: usize,
    pub join: Join,
    pub goes_on: bool,
    pub left: Option<Parts>,
    /// How many parts are given out but not done.
    pub given: usize,
    /// The process that got each part, by the part's first chunk.
    pub parts: BTreeMap<u64, usize>,
    /// The parts that are done and on the disk: from the first chunk of each to the chunk after its last.
    pub synced: BTreeMap<u64, u64>,
    /// How many of the first chunks are recorded to be on the disk, and how often this was recorded.
    pub noted: (u64, u64),
    /// How many processes still have to close it. `None` before they are asked to.
    pub leaving: Option<usize>,
    pub failed: bool,
    /// Whether something that was written may be lost.
    pub discards: bool,
    pub was_done: u64,
    /// What it holds, if it is listed.
    pub recorder: Option<Recorder<'static>>,
}

impl Large {
    /// Notes the nonces and tags of a part that is done.
    pub fn record(&self, part: Range<u64>, heads: Option<&Heads>) {
        let Some(recorder) = &self.recorder else { return };
        let last = self.chunks() - 1;
        let Some(heads) = heads.and_then(|heads| heads.split(part.end - part.start)) else { return };
        for (index, (nonce, tag)) in part.zip(heads) {
            recorder.record(&ChunkHead { index, is_last: index == last, nonce, tag });
        }
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> u64 {
        self.join.plaintext_len.div_ceil(self.join.chunk_len).max(1)
    }

    /// Gives out a part.
    pub fn part(&mut self, file: u64, rank: usize, run: Range<u64>) -> Task {
        self.given += 1;
        self.parts.insert(run.start, rank);
        Task::Part { file, join: Box::new(self.join.clone()), run, goes_on: self.goes_on }
    }
}

/// The failure of a job in which another process differs from this one. `None` if it does not.
pub fn misfit(mine: &Hello, other: &Hello, rank: usize) -> Option<Failure> {
    let why = if mine.version != other.version {
        format!("it runs version {}, and rank 0 version {}", other.version, mine.version)
    } else if other.args.is_none() {
        "its arguments are wrong".to_owned()
    } else if mine.args != other.args {
        "its arguments differ from those of rank 0".to_owned()
    } else {
        return None;
    };
    Some(Failure::usage(format!("{} (rank {rank}): {why}", other.host)))
}
