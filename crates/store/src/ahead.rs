//! Reading all of an object: what comes next is fetched before it is wanted.
//!
//! The object is cut into blocks. A window of blocks is under way; it moves on when its first block has been read as a
//! whole. Reads elsewhere are requests of their own.

use crate::object::{Object, Pinned};
use crate::runtime::runtime;
use bytes::Bytes;
use phalanx_core::{ReadAt, Snapshot};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The bytes of a block.
const BLOCK: u64 = 8 << 20;

/// So many bytes of the first block may have been read elsewhere: those of the header.
const HEADER: u64 = 64 << 10;

/// An object that is read from its beginning to its end.
pub struct Ahead<'a> {
    object: &'a Object,
    pinned: Arc<Pinned>,
    requests: usize,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// The number of the first block.
    first: u64,
    blocks: VecDeque<Block>,
}

struct Block {
    answer: Arc<Answer>,
    /// How many of its bytes nobody has read.
    left: u64,
}

/// What comes of a request.
#[derive(Default)]
struct Answer(Mutex<Option<Result<Bytes, (io::ErrorKind, String)>>>, Condvar);

impl<'a> Ahead<'a> {
    /// Begins at the first read.
    pub fn new(object: &'a Object, pinned: Arc<Pinned>, requests: NonZeroUsize) -> Self {
        Self { object, pinned, requests: requests.get(), window: Mutex::default() }
    }

    /// Where a block lies.
    fn range(&self, block: u64) -> Range<u64> {
        block * BLOCK..((block + 1) * BLOCK).min(self.pinned.len())
    }

    /// Fetches blocks until the window is full.
    fn fill(&self, window: &mut Window) -> io::Result<()> {
        while window.blocks.len() < self.requests {
            let range = self.range(window.first + window.blocks.len() as u64);
            if range.start >= range.end {
                break;
            }
            let slack = if range.start == 0 { HEADER } else { 0 };
            let left = (range.end - range.start).saturating_sub(slack).max(1);
            let (answer, pinned) = (Arc::new(Answer::default()), self.pinned.clone());
            window.blocks.push_back(Block { answer: answer.clone(), left });
            let promise = Promise(answer);
            runtime()?.spawn(async move { promise.0.set(pinned.fetch(range).await) });
        }
        Ok(())
    }

    /// The block, if it is in the window.
    fn block(&self, block: u64) -> io::Result<Option<Arc<Answer>>> {
        let mut window = lock(&self.window);
        self.fill(&mut window)?;
        let place = block.checked_sub(window.first).and_then(|place| usize::try_from(place).ok());
        Ok(place.and_then(|place| window.blocks.get(place)).map(|block| block.answer.clone()))
    }

    /// Notes that some of a block has been read.
    fn has_read(&self, block: u64, len: u64) -> io::Result<()> {
        let mut window = lock(&self.window);
        let first = window.first;
        let place = block.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(block) = place.and_then(|place| window.blocks.get_mut(place)) {
            block.left = block.left.saturating_sub(len);
        }
        while window.blocks.front().is_some_and(|block| block.left == 0) {
            window.blocks.pop_front();
            window.first += 1;
        }
        self.fill(&mut window)
    }
}

/// Whoever waits for an answer gets one, even if the request ends in a panic.
struct Promise(Arc<Answer>);

impl Drop for Promise {
    fn drop(&mut self) {
        let mut answer = lock(&self.0.0);
        if answer.is_none() {
            *answer = Some(Err((io::ErrorKind::BrokenPipe, "the request was given up".to_owned())));
            self.0.1.notify_all();
        }
    }
}

impl Answer {
    fn set(&self, answer: io::Result<Bytes>) {
        *lock(&self.0) = Some(answer.map_err(|e| (e.kind(), e.to_string())));
        self.1.notify_all();
    }

    fn wait(&self) -> io::Result<Bytes> {
        let answer = self.1.wait_while(lock(&self.0), |answer| answer.is_none());
        let answer = answer.unwrap_or_else(PoisonError::into_inner);
        match answer.as_ref() {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err((kind, why))) => Err(io::Error::new(*kind, why.clone())),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl ReadAt for Ahead<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.is_empty() || offset >= self.pinned.len() {
            return Ok(0);
        }
        // The header is read before anybody knows whether the rest will be.
        if !self.pinned.head(offset).is_empty() {
            return self.object.read_at(buf, offset);
        }
        let number = offset / BLOCK;
        let Some(answer) = self.block(number)? else { return self.object.read_at(buf, offset) };
        let bytes = answer.wait()?;
        let within = &bytes[(offset - number * BLOCK) as usize..];
        let len = within.len().min(buf.len());
        buf[..len].copy_from_slice(&within[..len]);
        self.has_read(number, len as u64)?;
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.object.size()
    }

    /// Fills as many parts as one block has bytes for.
    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        for part in parts.iter_mut() {
            let len = self.read_at(part, offset + done as u64)?;
            done += len;
            if len < part.len() {
                break;
            }
        }
        Ok(done)
    }
}

impl Snapshot for Ahead<'_> {
    fn is_unchanged(&self) -> io::Result<bool> {
        self.object.is_unchanged()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
