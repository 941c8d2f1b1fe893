//! Reading an object in whatever order, as programs read a mounted file.
//!
//! A read asks the store for the bytes that it wants. Where reads go on without a jump, what comes next is fetched early,
//! in pieces that get longer. A piece is dropped when all of it has been read, or reads are far beyond it.

use crate::answer::{Answer, GIVEN_UP};
use crate::budget::{self, Holder, Share};
use crate::course::{Course, LONGEST};
use crate::pinned::Pinned;
use crate::runtime::wait;
use phalanx_core::ReadAt;
use phalanx_host::lock::lock;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// So many pieces can be under way besides those of one object. All other objects share them, and what that one leaves.
const SPARE: u64 = 2;
/// The places of an object that are distinguished.
const STREAMS: usize = 4;
/// What nobody has read for this time is given back if another object needs the memory.
const IDLE: Duration = Duration::from_secs(2);

/// An object that is read in whatever order.
pub struct Adaptive {
    pinned: Arc<Pinned>,
    requests: u64,
    streams: Arc<Streams>,
}

/// The places where an object is read, the most recent one last.
#[derive(Default)]
struct Streams(Mutex<Vec<Stream>>);

struct Stream {
    course: Course,
    pieces: VecDeque<Piece>,
    used: Instant,
}

/// A range that is fetched early.
struct Piece {
    range: Range<u64>,
    /// How many of its bytes nobody has read.
    left: u64,
    answer: Arc<Answer>,
    request: AbortHandle,
    _share: Arc<Share>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.request.abort();
    }
}

impl Holder for Streams {
    fn give_back(&self) {
        // Whoever has the lock is reading, or asks for more.
        let mut streams = match self.0.try_lock() {
            Ok(streams) => streams,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        streams.retain(|stream| stream.used.elapsed() < IDLE);
    }
}

impl Adaptive {
    /// A source that reads an object with so many requests at the same time.
    pub fn new(pinned: Arc<Pinned>, requests: NonZeroUsize) -> Self {
        let streams = Arc::new(Streams::default());
        budget::enter(&streams);
        Self { pinned, requests: requests.get() as u64, streams }
    }

    /// Notes a read. Returns the piece that its first bytes lie in, or else the offset where the next piece begins.
    fn note(&self, read: &Range<u64>) -> Result<(u64, Arc<Answer>), u64> {
        let mut streams = lock(&self.streams.0);
        let mut stream = match streams.iter().rposition(|stream| stream.has(read)) {
            Some(place) => {
                let mut stream = streams.remove(place);
                if stream.course.go_on(read) {
                    self.fetch_early(&mut stream);
                }
                stream
            }
            None => Stream { course: Course::new(read), pieces: VecDeque::new(), used: Instant::now() },
        };
        stream.used = Instant::now();
        let found = stream.piece(read.start);
        if streams.len() == STREAMS {
            streams.remove(0);
        }
        streams.push(stream);
        found
    }

    fn fetch_early(&self, stream: &mut Stream) {
        let Stream { course, pieces, .. } = stream;
        pieces.retain(|piece| piece.left > 0 && !course.has_passed(&piece.range));
        while (pieces.len() as u64) < self.requests
            && let Some(range) = course.wanted(self.pinned.len(), self.requests * LONGEST)
            && let Some(share) = Share::take(range.end - range.start, (self.requests + SPARE) * LONGEST)
        {
            let share = Arc::new(share);
            // Without threads the reader asks itself, and reports the error.
            let Ok((answer, request)) = Answer::begin(&self.pinned, range.clone(), share.clone()) else { break };
            course.begun(&range);
            pieces.push_back(Piece { left: range.end - range.start, range, answer, request, _share: share });
        }
    }

    /// Notes that some of a piece was read.
    fn has_read(&self, answer: &Arc<Answer>, len: u64) {
        let mut streams = lock(&self.streams.0);
        let mut pieces = streams.iter_mut().flat_map(|stream| &mut stream.pieces);
        if let Some(piece) = pieces.find(|piece| Arc::ptr_eq(&piece.answer, answer)) {
            piece.left = piece.left.saturating_sub(len);
        }
    }

    /// Forgets what is fetched early, after an error.
    fn forget(&self) {
        let gone = std::mem::take(&mut *lock(&self.streams.0));
        drop(gone);
    }

    /// Reads from a piece. `None` if it could not be fetched, and the store should be asked again.
    fn read_piece(&self, start: u64, answer: &Arc<Answer>, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let was_there = answer.is_there();
        match answer.wait() {
            Ok(bytes) => {
                let rest = &bytes[(offset - start) as usize..];
                let len = rest.len().min(buf.len());
                buf[..len].copy_from_slice(&rest[..len]);
                self.has_read(answer, len as u64);
                Ok(Some(len))
            }
            // It may have failed long ago.
            Err(e) if was_there || e.kind() == GIVEN_UP => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn read(&self, buf: &mut [u8], read: Range<u64>) -> io::Result<usize> {
        let end = match self.note(&read) {
            Ok((start, answer)) => match self.read_piece(start, &answer, buf, read.start)? {
                Some(len) => return Ok(len),
                None => {
                    self.forget();
                    read.end
                }
            },
            Err(end) => end.min(read.end),
        };
        let bytes = wait(self.pinned.fetch(read.start..end))?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl Stream {
    /// Whether a read goes on here.
    fn has(&self, read: &Range<u64>) -> bool {
        self.course.has(read) || self.pieces.iter().any(|piece| piece.range.contains(&read.start))
    }

    /// The piece that has the byte at an offset, and where it begins; or else where the next one begins.
    fn piece(&self, offset: u64) -> Result<(u64, Arc<Answer>), u64> {
        match self.pieces.iter().find(|piece| piece.range.end > offset) {
            Some(piece) if piece.range.start <= offset => Ok((piece.range.start, piece.answer.clone())),
            Some(piece) => Err(piece.range.start),
            None => Err(u64::MAX),
        }
    }
}

impl ReadAt for Adaptive {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        // The first bytes came with the first request.
        let known = self.pinned.head(offset);
        let len = known.len().min(buf.len());
        if len > 0 {
            buf[..len].copy_from_slice(&known[..len]);
            return Ok(len);
        }
        let end = offset.saturating_add(buf.len() as u64).min(self.pinned.len());
        if offset >= end {
            return Ok(0);
        }
        self.read(buf, offset..end).inspect_err(|_| self.forget())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.pinned.len())
    }
}
