//! The file pipeline: sealing and opening files and pipes, in parallel and in bounded memory.
//!
//! The lane that takes a range of a file reads it, runs it and writes it itself. Where one end is a pipe, its bytes are
//! taken, or given, in order under a lock; the work between goes on in parallel all the same.

use crate::dispatcher::{Dispatcher, Extent, Work};
use crate::engine::{Bind, Engine, Job, Op, Unit, Verdicts};
use crate::header::{Header, read_full};
use crate::key::{ContentKeys, FileKeys};
use crate::layout::Layout;
use crate::stream::Stream;
use crate::{Error, Result, Suite};
use rustix::fs::{Advice, fadvise};
use rustix::io::{preadv, pwritev};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::SystemTime;

/// Where the bytes come from.
pub enum Source<'a> {
    /// A regular file: any lane reads anywhere.
    File(&'a File),
    /// Anything else, read in order.
    Stream(Stream<'a>),
}

impl<'a> Source<'a> {
    /// An opened file of any kind. What does not tell its length (pipes, devices, many files under /proc) is a stream.
    pub fn new(file: &'a File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(if meta.is_file() && meta.len() > 0 { Source::File(file) } else { Source::stream(file) })
    }

    /// A stream.
    pub fn stream(input: impl Read + Send + 'a) -> Self {
        Source::Stream(Stream::new(input))
    }

    /// Reads the header that a protected source begins with.
    pub fn header(&mut self) -> Result<Header> {
        match self {
            Source::File(file) => Header::read(&mut FromStart { file, offset: 0 }),
            Source::Stream(stream) => Header::read(stream),
        }
    }
}

/// Reads a file from its beginning, wherever its cursor is.
struct FromStart<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buf, self.offset)?;
        self.offset += len as u64;
        Ok(len)
    }
}

/// Where the bytes go.
pub enum Sink<'a> {
    /// An empty regular file: any lane writes anywhere.
    File(&'a File),
    /// The same, but it will be synced: its write-back begins at once, so that the disk works while the cores do.
    Synced(&'a File),
    /// Anything else, written in order.
    Stream(Box<dyn Write + Send + 'a>),
    /// Nowhere: the bytes are only checked.
    Nothing,
}

/// Who is told how far the work has come, in bytes of plaintext. Called from all lanes.
pub trait Progress: Sync {
    /// So many bytes more are done.
    fn advance(&self, bytes: u64);
}

/// Nobody is told.
impl Progress for () {
    fn advance(&self, _: u64) {}
}

/// Protects `source`: writes `header` and then the sealed chunks to `sink`. Returns the plaintext's length in bytes.
pub fn seal(
    dispatcher: &Dispatcher,
    header: &Header,
    keys: &FileKeys,
    source: Source<'_>,
    mut sink: Sink<'_>,
    progress: &dyn Progress,
) -> Result<u64> {
    match &mut sink {
        Sink::File(file) | Sink::Synced(file) => file.write_all_at(header.bytes(), 0).map_err(Error::Write)?,
        Sink::Stream(out) => out.write_all(header.bytes()).map_err(Error::Write)?,
        Sink::Nothing => {}
    }
    let file = if let Source::File(file) = source { Some((file, stamp(file)?)) } else { None };
    let input = Input::new(source, |len| {
        let layout = Layout::for_plaintext(header.bytes().len(), header.suite(), header.chunk_log2(), len);
        layout.ok_or_else(|| Error::Read(io::ErrorKind::FileTooLarge.into()))
    })?;
    let len = transfer(dispatcher, Op::Seal, header, keys, input, sink, progress)?;
    // What changed meanwhile would be protected half old and half new, or without its end.
    if let Some((file, before)) = file
        && stamp(file)? != before
    {
        return Err(Error::Changed);
    }
    Ok(len)
}

/// Unprotects `source`, from which `header` was read and opened: writes the plaintext to `sink`, each chunk after its
/// tag is checked. Returns the plaintext's length in bytes.
pub fn open(
    dispatcher: &Dispatcher,
    header: &Header,
    keys: &FileKeys,
    source: Source<'_>,
    sink: Sink<'_>,
    progress: &dyn Progress,
) -> Result<u64> {
    let layout = |len| Layout::for_file(header.bytes().len(), header.suite(), header.chunk_log2(), len);
    let output = if let Sink::File(file) | Sink::Synced(file) = sink { Some(file) } else { None };
    let len = transfer(dispatcher, Op::Open, header, keys, Input::new(source, layout)?, sink, progress)?;
    if let Some(file) = output {
        // Zeros at the end were left out as a hole.
        file.set_len(len).map_err(Error::Write)?;
    }
    Ok(len)
}

/// What tells whether a file was written to.
fn stamp(file: &File) -> Result<(u64, SystemTime)> {
    let meta = file.metadata().map_err(Error::Read)?;
    Ok((meta.len(), meta.modified().map_err(Error::Read)?))
}

fn transfer<'a>(
    dispatcher: &Dispatcher,
    op: Op,
    header: &Header,
    keys: &FileKeys,
    input: Input<'a>,
    sink: Sink<'a>,
    progress: &'a dyn Progress,
) -> Result<u64> {
    let output = match sink {
        Sink::File(file) => Output::File { file, write_back: false },
        Sink::Synced(file) => Output::File { file, write_back: true },
        Sink::Stream(writer) => {
            Output::Stream(Mutex::new(StreamOut { writer, next: 0, aborted: false }), Condvar::new())
        }
        Sink::Nothing => Output::Nothing,
    };
    let work = Transfer {
        op,
        suite: header.suite(),
        chunk_log2: header.chunk_log2(),
        header_len: header.bytes().len(),
        keys: Arc::new([keys.content.clone()]),
        input,
        output,
        done: AtomicU64::new(0),
        progress,
    };
    dispatcher.run(&work)?;
    if let Output::Stream(out, _) = &work.output {
        lock(out).writer.flush().map_err(Error::Write)?;
    }
    Ok(work.done.into_inner())
}

/// One file on its way.
struct Transfer<'a> {
    op: Op,
    suite: Suite,
    chunk_log2: u8,
    header_len: usize,
    keys: Arc<[ContentKeys]>,
    input: Input<'a>,
    output: Output<'a>,
    done: AtomicU64,
    progress: &'a dyn Progress,
}

enum Input<'a> {
    /// `next` is the first chunk that no lane has taken.
    File { file: &'a File, layout: Layout, next: AtomicU64 },
    /// `short_len` is the length, if the stream is short.
    Stream { stream: Mutex<StreamIn<'a>>, short_len: Option<u64> },
}

impl<'a> Input<'a> {
    /// `layout` gives the layout that belongs to a file's length.
    fn new(source: Source<'a>, layout: impl FnOnce(u64) -> Result<Layout>) -> Result<Self> {
        match source {
            Source::File(file) => {
                let len = file.metadata().map_err(Error::Read)?.len();
                Ok(Input::File { file, layout: layout(len)?, next: AtomicU64::new(0) })
            }
            Source::Stream(mut reader) => {
                let short_len = reader.short_len()?;
                Ok(Input::Stream { short_len, stream: Mutex::new(StreamIn { reader, next: 0, ended: false }) })
            }
        }
    }
}

struct StreamIn<'a> {
    reader: Stream<'a>,
    /// The number of the next chunk.
    next: u64,
    ended: bool,
}

enum Output<'a> {
    File { file: &'a File, write_back: bool },
    Stream(Mutex<StreamOut<'a>>, Condvar),
    Nothing,
}

struct StreamOut<'a> {
    writer: Box<dyn Write + Send + 'a>,
    /// The number of the chunk whose turn it is.
    next: u64,
    aborted: bool,
}

impl Work for Transfer<'_> {
    type Error = Error;

    fn extent(&self) -> Extent {
        let len = match &self.input {
            Input::File { layout, .. } => Some(layout.plaintext_len()),
            Input::Stream { short_len, .. } => *short_len,
        };
        Extent { len, granule: self.chunk_len() }
    }

    fn job(&self, engine: &dyn Engine, len: usize) -> Result<Job> {
        Ok(Job::new(self.op, self.suite, self.keys.clone(), engine.buffer(len)?))
    }

    fn fill(&self, job: &mut Job) -> Result<bool> {
        job.units.clear();
        match &self.input {
            Input::File { file, layout, next } => self.fill_from_file(job, file, layout, next)?,
            Input::Stream { stream, .. } => self.fill_from_stream(job, &mut lock(stream))?,
        }
        if self.op == Op::Seal {
            for unit in &mut job.units {
                getrandom::fill(&mut unit.nonce[..self.suite.nonce_len()]).map_err(Error::Random)?;
            }
        }
        Ok(!job.units.is_empty())
    }

    fn finish(&self, job: &mut Job, verdicts: &Verdicts) -> Result<()> {
        if let Some(&failed) = verdicts.failed().first() {
            return Err(Error::Altered(chunk_index(&job.units[failed])));
        }
        let first = chunk_index(&job.units[0]);
        match &self.output {
            Output::File { file, write_back } => self.write_to_file(job, file, first, *write_back)?,
            Output::Stream(out, turn) => self.write_in_turn(job, out, turn, first)?,
            Output::Nothing => {}
        }
        let bytes: usize = job.units.iter().map(|unit| unit.data.len()).sum();
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
        self.progress.advance(bytes as u64);
        Ok(())
    }

    fn abort(&self) {
        if let Output::Stream(out, turn) = &self.output {
            lock(out).aborted = true;
            turn.notify_all();
        }
    }
}

impl Transfer<'_> {
    fn chunk_len(&self) -> usize {
        1 << self.chunk_log2
    }

    /// How many chunks the job's buffer holds.
    fn capacity(&self, job: &Job) -> usize {
        (job.buf.len() >> self.chunk_log2).max(1)
    }

    /// A unit of `len` bytes for a chunk; chunks lie one behind another in the buffer, so that plaintext is one piece.
    fn unit(&self, job: &Job, index: u64, last: bool, len: usize) -> Unit {
        let start = job.units.len() << self.chunk_log2;
        Unit { key: 0, nonce: [0; 16], bind: Bind::Chunk { index, last }, data: start..start + len, tag: [0; 32] }
    }

    fn fill_from_file(&self, job: &mut Job, file: &File, layout: &Layout, next: &AtomicU64) -> Result<()> {
        let capacity = self.capacity(job) as u64;
        let first = next.fetch_add(capacity, Ordering::Relaxed);
        for index in first..layout.chunks().min(first + capacity) {
            let unit = self.unit(job, index, layout.is_last(index), layout.data_len(index));
            job.units.push(unit);
        }
        let Some(last) = job.units.last() else { return Ok(()) };
        let read = match self.op {
            Op::Seal => file.read_exact_at(&mut job.buf[..last.data.end], layout.plaintext_offset(first)),
            Op::Open => self.read_records(job, file, layout.file_offset(first)),
        };
        read.map_err(|e| if e.kind() == io::ErrorKind::UnexpectedEof { Error::Changed } else { Error::Read(e) })
    }

    fn fill_from_stream(&self, job: &mut Job, stream: &mut StreamIn) -> Result<()> {
        while job.units.len() < self.capacity(job) && !stream.ended {
            let index = stream.next;
            let mut unit = self.unit(job, index, false, self.chunk_len());
            // A short stream has a buffer of its own length.
            unit.data.end = unit.data.end.min(job.buf.len());
            if self.op == Op::Open {
                for part in [&mut unit.nonce[..self.suite.nonce_len()], &mut unit.tag[..self.suite.tag_len()]] {
                    if read_full(&mut stream.reader, part)? < part.len() {
                        return Err(Error::Cut("it ends within a chunk"));
                    }
                }
            }
            let len = read_full(&mut stream.reader, &mut job.buf[unit.data.clone()])?;
            if len == 0 && index > 0 {
                return Err(Error::Cut("an empty chunk"));
            }
            stream.ended = len < self.chunk_len() || stream.reader.ends_here()?;
            stream.next += 1;
            unit.data.end = unit.data.start + len;
            unit.bind = Bind::Chunk { index, last: stream.ended };
            job.units.push(unit);
        }
        Ok(())
    }

    /// Reads the job's chunks as they are stored, from `offset` on.
    fn read_records(&self, job: &mut Job, file: &File, mut offset: u64) -> io::Result<()> {
        let mut data = &mut job.buf[..];
        let mut at = 0;
        for batch in job.units.chunks_mut(BATCH) {
            let mut parts: [IoSliceMut; 3 * BATCH] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
            let mut count = 0;
            for unit in batch {
                let (skipped, rest) = std::mem::take(&mut data).split_at_mut(unit.data.end - at);
                at = unit.data.end;
                let len = unit.data.len();
                let begin = skipped.len() - len;
                parts[count] = IoSliceMut::new(&mut unit.nonce[..self.suite.nonce_len()]);
                parts[count + 1] = IoSliceMut::new(&mut unit.tag[..self.suite.tag_len()]);
                parts[count + 2] = IoSliceMut::new(&mut skipped[begin..]);
                count += 3;
                data = rest;
            }
            let mut left = &mut parts[..count];
            // An empty file's only chunk has no data, and an empty part at the end would look like the end of the file.
            while left.iter().any(|part| !part.is_empty()) {
                match preadv(file, left, offset) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(n) => {
                        offset += n as u64;
                        IoSliceMut::advance_slices(&mut left, n);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    fn write_to_file(&self, job: &Job, file: &File, first: u64, write_back: bool) -> Result<()> {
        let plain = plaintext(job);
        let (offset, len) = match self.op {
            Op::Open => (first << self.chunk_log2, plain.len()),
            Op::Seal => {
                let record = (self.chunk_len() + self.suite.overhead()) as u64;
                (self.header_len as u64 + first * record, plain.len() + job.units.len() * self.suite.overhead())
            }
        };
        let written = match self.op {
            Op::Open => write_sparse(file, plain, offset),
            Op::Seal => {
                let mut at = offset;
                self.write_records(job, |parts| {
                    let n = pwritev(file, parts, at)?;
                    at += n as u64;
                    Ok(n)
                })
            }
        };
        written.map_err(Error::Write)?;
        if write_back {
            // On Linux this starts the write-back and keeps what is under it; elsewhere it does no harm.
            let _ = fadvise(file, offset, NonZeroU64::new(len as u64), Advice::DontNeed);
        }
        Ok(())
    }

    fn write_in_turn(&self, job: &Job, out: &Mutex<StreamOut>, turn: &Condvar, first: u64) -> Result<()> {
        let waiting = |out: &mut StreamOut| out.next != first && !out.aborted;
        let mut out = turn.wait_while(lock(out), waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
        if out.aborted {
            return Err(Error::Cancelled);
        }
        let written = match self.op {
            Op::Open => out.writer.write_all(plaintext(job)),
            Op::Seal => self.write_records(job, |parts| out.writer.write_vectored(parts)),
        };
        written.map_err(Error::Write)?;
        out.next += job.units.len() as u64;
        turn.notify_all();
        Ok(())
    }

    /// Writes the job's chunks as they are stored, by calls of `write`, which may take less than it is given.
    fn write_records(&self, job: &Job, mut write: impl FnMut(&[IoSlice]) -> io::Result<usize>) -> io::Result<()> {
        for batch in job.units.chunks(BATCH) {
            let mut parts = [IoSlice::new(&[]); 3 * BATCH];
            for (parts, unit) in parts.chunks_exact_mut(3).zip(batch) {
                parts[0] = IoSlice::new(&unit.nonce[..self.suite.nonce_len()]);
                parts[1] = IoSlice::new(&unit.tag[..self.suite.tag_len()]);
                parts[2] = IoSlice::new(&job.buf[unit.data.clone()]);
            }
            let mut left = &mut parts[..3 * batch.len()];
            // Likewise, it would look like a write of nothing.
            while left.iter().any(|part| !part.is_empty()) {
                match write(left) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => IoSlice::advance_slices(&mut left, n),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }
}

/// As many chunks as one vectored call moves.
const BATCH: usize = 32;

/// Writes to a new file, leaving out blocks of zeros: what was sparse, or could have been, becomes sparse.
pub(crate) fn write_sparse(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    const BLOCK: usize = 64 * 1024;
    let is_zero = |block: &[u8]| block.chunks(64).all(|part| part == &[0; 64][..part.len()]);
    let mut at = 0;
    while at < bytes.len() {
        let block = |at: usize| &bytes[at..bytes.len().min(at + BLOCK)];
        let start = at;
        while at < bytes.len() && !is_zero(block(at)) {
            at += block(at).len();
        }
        file.write_all_at(&bytes[start..at], offset + start as u64)?;
        if at < bytes.len() {
            at += block(at).len();
        }
    }
    Ok(())
}

/// The bytes of a job whose chunks are all whole but the last.
fn plaintext(job: &Job) -> &[u8] {
    &job.buf[..job.units.last().map_or(0, |unit| unit.data.end)]
}

fn chunk_index(unit: &Unit) -> u64 {
    match unit.bind {
        Bind::Chunk { index, .. } => index,
        Bind::Message { .. } => unreachable!("files consist of chunks"),
    }
}

/// Locks, also behind a lane that panicked: the dispatcher ends the run anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
