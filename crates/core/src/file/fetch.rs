//! Opened chunks for many readers at once: from the cache, opened by the reader that needs them, or opened ahead by
//! threads.
//!
//! A chunk that is to be opened is claimed first, under the lock, so that no two threads open the same one. A reader
//! that finds a claim waits for it. If no thread has begun on it, the reader does the work itself. So no reader ever
//! waits for a thread that does not run.

use crate::file::cache::{Block, Cache, ChunkState, Claim};
use crate::file::ranges::{CUT_OFF, Ranges};
use crate::file::read_at::{ReadAt, read_full_at};
use crate::file::records::Memory;
use crate::roster::Member;
use crate::tree::LastChunk;
use crate::{Class, Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How many bytes one job opens, unless a single chunk is longer.
const JOB: usize = 1 << 20;
/// A thread that has nothing to open for this time ends.
const IDLE: Duration = Duration::from_millis(200);

/// One protected file, and its opened chunks.
pub(crate) struct Fetch<S> {
    pub source: S,
    pub ranges: Ranges,
    /// How many chunks one job opens.
    job: u64,
    /// How many chunks are opened ahead at most.
    ahead: u64,
    /// How many threads open chunks ahead at most.
    most_threads: usize,
    state: Mutex<FetchState>,
    /// Signals that a claim has ended.
    ended: Condvar,
    /// Signals that there is something to open ahead, or that all work has ended.
    queued: Condvar,
}

struct FetchState {
    cache: Cache,
    /// Claimed, to be opened ahead.
    queue: VecDeque<Claim>,
    threads: Vec<JoinHandle<()>>,
    running: usize,
    /// How many of these wait for something to do.
    idle: usize,
    /// How many readers wait for a claim to end.
    waiting: usize,
    is_closed: bool,
}

/// A stream of reads, each of which continues where the one before ended.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReadStream {
    /// Where the last read ended, in bytes of plaintext.
    pub end: u64,
    /// What it has read without a jump, in bytes.
    pub run: u64,
    /// The first chunk that has not been asked for ahead.
    ahead: u64,
}

impl ReadStream {
    /// A stream that begins at `offset`.
    pub fn new(offset: u64) -> Self {
        Self { end: offset, ..Self::default() }
    }

    /// Records that `len` bytes up to `end` were read. Bytes before the old end do not count.
    pub fn advance(&mut self, end: u64, len: usize) {
        self.run = self.run.saturating_add(end.saturating_sub(self.end).min(len as u64));
        self.end = self.end.max(end);
    }
}

impl<S: ReadAt> Fetch<S> {
    /// Fetches with a cache and a read-ahead of at most this many bytes.
    pub fn new(source: S, ranges: Ranges, cache: usize, ahead: usize) -> Result<Self> {
        let threads = ranges.roster.workers(ranges.records.suite)?.len();
        let record = ranges.records.record_len();
        let limit = cache.max(record);
        // Chunks that are read ahead must not evict those that are being read.
        let ahead = (ahead.min(limit / 2) / record) as u64;
        // There should be two jobs ahead for each thread, unless the jobs get too short.
        let share = if ahead == 0 { JOB } else { ahead as usize * record / (2 * threads) };
        let job = share.clamp(JOB / 8, JOB).min(limit / 2) / record;
        let state = FetchState {
            cache: Cache::new(limit),
            queue: VecDeque::new(),
            threads: Vec::new(),
            running: 0,
            idle: 0,
            waiting: 0,
            is_closed: false,
        };
        Ok(Self {
            source,
            ranges,
            job: job.max(1) as u64,
            ahead,
            most_threads: threads,
            state: Mutex::new(state),
            ended: Condvar::new(),
            queued: Condvar::new(),
        })
    }

    /// Opens the last chunk, which proves the length, and returns its nonce and tag.
    pub fn check_end(&self) -> Result<LastChunk> {
        let (last, suite) = (self.ranges.layout.chunks() - 1, self.ranges.records.suite);
        let mut claim = self.hold(self.claim(last..last + 1));
        let memory = self.read(&mut claim)?;
        let (nonce, tag) = memory.bytes()[..suite.overhead()].split_at(suite.nonce_len());
        let end = LastChunk::new(nonce, tag);
        match self.open_read(claim, memory, self.ranges.roster.first(suite)?) {
            Ok(_) => Ok(end),
            // A chunk that is intact at its place, but not the last of its file, allows a more exact error.
            Err(Error::Altered { .. }) if self.opens_before_the_end(last)? => Err(CUT_OFF),
            Err(error) => Err(error),
        }
    }

    fn opens_before_the_end(&self, chunk: u64) -> Result<bool> {
        let mut memory = self.ranges.memory(&(chunk..chunk + 1))?;
        read_full_at(&self.source, memory.bytes_mut(), self.ranges.layout.file_offset(chunk))?;
        self.ranges.goes_on_after(chunk, memory)
    }

    fn claim(&self, chunks: Range<u64>) -> Claim {
        let mut gone = Vec::new();
        let bytes = self.ranges.stored_len(&chunks);
        // Evicted blocks are wiped after the lock is released, because that takes time.
        self.lock().cache.claim(chunks, bytes, &mut gone)
    }

    /// Reads and opens what was claimed. The block may have fewer chunks, if one of them is not authentic.
    fn open(&self, mut claim: Claimed<'_, S>, member: &Member) -> Result<Arc<Block>> {
        let memory = self.read(&mut claim)?;
        self.open_read(claim, memory, member)
    }

    /// Reads what was claimed, in its stored form.
    fn read(&self, claim: &mut Claimed<'_, S>) -> Result<Memory> {
        let chunks = &claim.claim.chunks;
        let mut memory = match claim.claim.memory.take() {
            Some(memory) => memory,
            None => self.ranges.memory(chunks)?,
        };
        read_full_at(&self.source, memory.bytes_mut(), self.ranges.layout.file_offset(chunks.start))?;
        Ok(memory)
    }

    /// Opens what was claimed and read.
    fn open_read(&self, claim: Claimed<'_, S>, mut memory: Memory, member: &Member) -> Result<Arc<Block>> {
        let chunks = claim.claim.chunks.clone();
        let opened = self.ranges.open(&mut memory, &chunks, member)?;
        let block = Arc::new(Block::new(chunks.start..chunks.start + opened as u64, memory));
        claim.keep(block.clone());
        Ok(block)
    }

    /// Opens what this thread has claimed or taken over.
    fn open_here(&self, claim: Claim) -> Result<Arc<Block>> {
        let claim = self.hold(claim);
        self.open(claim, self.ranges.roster.first(self.ranges.records.suite)?)
    }

    fn hold(&self, claim: Claim) -> Claimed<'_, S> {
        Claimed { fetch: self, claim, is_kept: false }
    }

    /// Notifies the waiting readers that a claim has ended.
    fn tell(&self, state: &FetchState) {
        if state.waiting > 0 {
            self.ended.notify_all();
        }
    }
}

/// Whether an error concerns only these bytes, because they are not authentic or the system cannot read them. Others
/// may then still be readable. An error of the source itself, such as an interruption by its user, is not provoked
/// twice.
fn is_of_bytes(error: &Error) -> bool {
    match error {
        Error::Read(e) => e.raw_os_error().is_some(),
        error => error.class() == Class::NotAuthentic,
    }
}

impl<S> Fetch<S> {
    fn lock(&self) -> MutexGuard<'_, FetchState> {
        // A thread that panicked has given up its claim.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all work ahead, and waits for the threads.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let (queue, threads) = (std::mem::take(&mut state.queue), std::mem::take(&mut state.threads));
        drop(state);
        self.queued.notify_all();
        drop(queue);
        // A source that such a thread calls may drop the last reader. A thread cannot wait for itself.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != thread::current().id()) {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }
}

impl<S: ReadAt + Send + Sync + 'static> Fetch<S> {
    /// An opened chunk and perhaps some that follow it. The reader is about to read on up to the chunk `end`.
    pub fn block(self: &Arc<Self>, chunk: u64, end: u64, stream: &mut ReadStream) -> Result<Arc<Block>> {
        let mut most = self.job;
        loop {
            let mut gone = Vec::new();
            let mut state = self.lock();
            let found = state.cache.find(chunk);
            let mine = match &found {
                ChunkState::Opened(block) => Err(block.clone()),
                ChunkState::Absent => {
                    let chunks = state.cache.absent(chunk..end.max(chunk + 1), most);
                    let bytes = self.ranges.stored_len(&chunks);
                    Ok(state.cache.claim(chunks, bytes, &mut gone))
                }
                ChunkState::Claimed => match state.queue.iter().position(|claim| claim.chunks.contains(&chunk)) {
                    Some(place) => Ok(state.queue.remove(place).expect("it is there")),
                    None => {
                        state.waiting += 1;
                        let mut state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                        state.waiting -= 1;
                        continue;
                    }
                },
            };
            let next = mine.as_ref().map_or_else(|block| block.chunks.end, |claim| claim.chunks.end);
            // While this thread opens what it has claimed, others can open the rest that it needs.
            let end = if mine.is_ok() { end } else { next };
            self.ask_ahead(&mut state, next, end, stream, &mut gone);
            drop(state);
            let claim = match mine {
                Ok(claim) => claim,
                Err(block) => return Ok(block),
            };
            let (is_exact, is_alone) = (claim.chunks.start == chunk, claim.chunks.end == chunk + 1);
            match self.open_here(claim) {
                Ok(block) if block.chunks.contains(&chunk) => return Ok(block),
                Err(error) if is_exact && is_alone || !is_of_bytes(&error) => return Err(error),
                // A failure in the chunks around it must not prevent reading this chunk.
                Ok(_) | Err(_) => most = 1,
            }
        }
    }

    /// Claims the chunks that the reader will need next, from `next` on: everything that it has asked for, and beyond
    /// that at most as much as it has read without a jump.
    fn ask_ahead(
        self: &Arc<Self>,
        state: &mut FetchState,
        next: u64,
        end: u64,
        stream: &mut ReadStream,
        gone: &mut Vec<Arc<Block>>,
    ) {
        let window = (stream.run / self.ranges.records.chunk_len as u64).min(self.ahead);
        let target = end.max(next.saturating_add(window)).min(next.saturating_add(self.ahead));
        let target = target.min(self.ranges.layout.chunks());
        let mut at = stream.ahead.max(next);
        while at < target && !state.is_closed {
            let chunks = state.cache.absent(at..target, self.job);
            let is_short = chunks.end - chunks.start < self.job;
            let waits = is_short && chunks.end == target && target > end && target < self.ranges.layout.chunks();
            if chunks.is_empty() || waits {
                // The next read does not search the chunks that are there already.
                stream.ahead = chunks.start;
                break;
            }
            let bytes = self.ranges.stored_len(&chunks);
            at = chunks.end;
            let Some(claim) = state.cache.claim_ahead(chunks, bytes, gone) else { break };
            stream.ahead = at;
            state.queue.push_back(claim);
            self.call_thread(state);
        }
    }

    /// Makes sure that a thread takes what was queued. If the system cannot start a thread, the reader that needs a
    /// chunk does the work.
    fn call_thread(self: &Arc<Self>, state: &mut FetchState) {
        if state.idle > 0 {
            self.queued.notify_one();
        }
        if state.queue.len() > state.idle && state.running < self.most_threads {
            state.threads.retain(|thread| !thread.is_finished());
            let (fetch, number) = (self.clone(), state.running);
            let thread = thread::Builder::new().name("phalanx-reader".into());
            if let Ok(thread) = thread.spawn(move || fetch.work(number)) {
                state.threads.push(thread);
                state.running += 1;
            }
        }
    }

    /// The loop of a thread.
    fn work(&self, number: usize) {
        let mut running = Running { fetch: self, is_counted: true };
        loop {
            let mut state = self.lock();
            while state.queue.is_empty() && !state.is_closed {
                state.idle += 1;
                let (after, wait) = self.queued.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                state = after;
                state.idle -= 1;
                if wait.timed_out() && state.queue.is_empty() {
                    // Under the same lock, so that no reader relies on this thread any more.
                    state.running -= 1;
                    running.is_counted = false;
                    return;
                }
            }
            let Some(claim) = state.queue.pop_front().filter(|_| !state.is_closed) else { return };
            drop(state);
            // A reader that needs a chunk that could not be opened tries again, and reports the error.
            let claim = self.hold(claim);
            if let Ok(members) = self.ranges.roster.workers(self.ranges.records.suite) {
                let _ = self.open(claim, members[number % members.len()]);
            }
        }
    }
}

/// A claim that is released on drop unless its chunks were opened.
struct Claimed<'a, S: ReadAt> {
    fetch: &'a Fetch<S>,
    claim: Claim,
    is_kept: bool,
}

impl<S: ReadAt> Claimed<'_, S> {
    fn keep(mut self, block: Arc<Block>) {
        let mut state = self.fetch.lock();
        state.cache.keep(&self.claim, block);
        self.is_kept = true;
        self.fetch.tell(&state);
    }
}

impl<S: ReadAt> Drop for Claimed<'_, S> {
    fn drop(&mut self) {
        if !self.is_kept {
            let mut state = self.fetch.lock();
            state.cache.release(&self.claim);
            self.fetch.tell(&state);
        }
    }
}

/// Counts a thread as long as it runs, even if it panics.
struct Running<'a, S: ReadAt> {
    fetch: &'a Fetch<S>,
    is_counted: bool,
}

impl<S: ReadAt> Drop for Running<'_, S> {
    fn drop(&mut self) {
        if self.is_counted {
            self.fetch.lock().running -= 1;
        }
    }
}
