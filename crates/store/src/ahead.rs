//! Reading all of an object: what comes next is fetched before it is wanted.
//!
//! The object is cut into blocks. A window of blocks is under way; it moves on when its first block has been read as a
//! whole. Reads elsewhere are requests of their own.

use crate::answer::Answer;
use crate::pinned::Pinned;
use crate::runtime::wait;
use bytes::Bytes;
use phalanx_core::{ReadAt, Snapshot};
use phalanx_host::lock::lock;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The bytes of a block.
const BLOCK: u64 = 8 << 20;

/// So many bytes of the first block may have been read elsewhere: those of the header.
const HEADER: u64 = 64 << 10;

/// An object that is read from its beginning to its end.
pub struct Ahead {
    pinned: Arc<Pinned>,
    requests: usize,
    from: u64,
    window: Mutex<Window>,
}

struct Window {
    /// The number of the first block.
    first: u64,
    blocks: VecDeque<Block>,
    /// How many bytes of blocks beyond the window have been read already, by workers that are ahead of it.
    read: BTreeMap<u64, u64>,
}

struct Block {
    /// `None` if all of it has been read already.
    answer: Option<Arc<Answer>>,
    /// How many of its bytes nobody has read.
    left: u64,
}

impl Ahead {
    /// A source that is read from an offset on. It begins at the first read.
    pub fn new(pinned: Arc<Pinned>, requests: NonZeroUsize, from: u64) -> Self {
        let window = Window { first: from / BLOCK, blocks: VecDeque::new(), read: BTreeMap::new() };
        Self { pinned, requests: requests.get(), from, window: Mutex::new(window) }
    }

    /// Where a block lies.
    fn range(&self, block: u64) -> Range<u64> {
        block * BLOCK..(block * BLOCK).saturating_add(BLOCK).min(self.pinned.len())
    }

    /// Fetches blocks until the window is full.
    fn fill(&self, window: &mut Window) -> io::Result<()> {
        while window.blocks.len() < self.requests {
            let number = window.first + window.blocks.len() as u64;
            let range = self.range(number);
            if range.start >= range.end {
                break;
            }
            let slack = if range.start <= self.from { self.from - range.start + HEADER } else { 0 };
            let wanted = (range.end - range.start).saturating_sub(slack).max(1);
            let left = wanted.saturating_sub(window.read.remove(&number).unwrap_or(0));
            if left == 0 {
                window.blocks.push_back(Block { answer: None, left });
                continue;
            }
            let (answer, _) = Answer::begin(&self.pinned, range, ())?;
            window.blocks.push_back(Block { answer: Some(answer), left });
        }
        Ok(())
    }

    /// The block, if it is in the window.
    fn block(&self, block: u64) -> io::Result<Option<Arc<Answer>>> {
        let mut window = lock(&self.window);
        self.fill(&mut window)?;
        let place = block.checked_sub(window.first).and_then(|place| usize::try_from(place).ok());
        Ok(place.and_then(|place| window.blocks.get(place)).and_then(|block| block.answer.clone()))
    }

    /// Notes that some of a block has been read.
    fn has_read(&self, block: u64, len: u64) -> io::Result<()> {
        let mut window = lock(&self.window);
        let first = window.first;
        let place = block.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        match place.map(|place| window.blocks.get_mut(place)) {
            Some(Some(block)) => block.left = block.left.saturating_sub(len),
            Some(None) => *window.read.entry(block).or_default() += len,
            None => {}
        }
        while window.blocks.front().is_some_and(|block| block.left == 0) {
            window.blocks.pop_front();
            window.first += 1;
        }
        self.fill(&mut window)
    }
}

impl Ahead {
    /// Bytes from an offset on, `most` at most: from the window, or else by a request of their own.
    fn bytes(&self, most: usize, offset: u64) -> io::Result<Bytes> {
        let number = offset / BLOCK;
        let (start, end) = (number * BLOCK, self.range(number).end.min(offset.saturating_add(most as u64)));
        let bytes = match self.block(number)? {
            Some(answer) => answer.wait()?.slice((offset - start) as usize..(end - start) as usize),
            None => wait(self.pinned.fetch(offset..end))?,
        };
        self.has_read(number, bytes.len() as u64)?;
        Ok(bytes)
    }
}

impl ReadAt for Ahead {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.pinned.len())
    }

    /// Fills as many parts as one block has bytes for.
    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let most: usize = parts.iter().map(|part| part.len()).sum();
        if most == 0 || offset >= self.pinned.len() {
            return Ok(0);
        }
        // The header is read before anybody knows whether the rest will be.
        let head = self.pinned.head(offset);
        let found = if head.is_empty() { self.bytes(most, offset)? } else { Bytes::copy_from_slice(head) };
        let mut left = &found[..];
        for part in parts {
            let (now, later) = left.split_at(left.len().min(part.len()));
            part[..now.len()].copy_from_slice(now);
            left = later;
        }
        Ok(found.len() - left.len())
    }
}

impl Snapshot for Ahead {
    fn is_unchanged(&self) -> io::Result<bool> {
        self.pinned.is_unchanged()
    }
}
