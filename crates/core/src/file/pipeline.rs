//! The file pipeline: sealing and opening files and pipes, in parallel and in bounded memory.
//!
//! The worker that takes a range of a file reads it, runs it and writes it itself. If one end is a pipe, its bytes are
//! read or written in order, under a lock. The work between still runs in parallel.

use crate::file::look_ahead::LookAhead;
use crate::file::read_at::{Snapshot, read_parts};
use crate::file::salvage;
use crate::file::source::{ChunkHead, Kind, Progress, Sink, Source};
use crate::file::todo::Todo;
use crate::file::write_at::{Filling, WriteAt};
use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::io::read_full;
use crate::keys::key::{ContentKeys, FileKeys};
use crate::op::Op;
use crate::roster::Roster;
use crate::schedule::{Extent, Share, Work};
use crate::seam::{Bind, Buffer, Job, Unit, Verdicts};
use crate::{Error, Result, Suite, schedule};
use std::io::{self, IoSliceMut, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Protects `source`: writes `header` and then the sealed chunks to `sink`. With `runs`, in ascending order, it seals
/// only these chunks of a file. Returns how many bytes of plaintext were sealed.
pub(crate) fn seal(
    roster: &Roster,
    header: &Header,
    keys: &FileKeys,
    source: Source<'_>,
    sink: Sink<'_>,
    runs: Option<Vec<Range<u64>>>,
    progress: &dyn Progress,
) -> Result<u64> {
    let snapshot = match &source.0 {
        Kind::Ranged(input) => Some(input.clone()),
        Kind::Stream(_, file) => file.clone(),
    };
    let is_whole = runs.is_none();
    let input = Input::new(source, |len| header.layout_for_plaintext(len), runs)?;
    let len = transfer(roster, Op::Seal, header, keys, input, sink, is_whole, progress)?;
    // If the input has changed, it may have been read half old and half new, or without its end.
    let is_unchanged = snapshot.map_or(Ok(true), |snapshot| snapshot.is_unchanged()).map_err(Error::Read)?;
    if is_unchanged { Ok(len) } else { Err(Error::Changed) }
}

/// Unprotects `source`, from which `header` was read and opened: writes the plaintext to `sink`, each chunk after its
/// tag is checked. With `runs`, in ascending order, it opens only these chunks of a file. Zeros are then left out, so
/// the file may be too short afterwards. Returns how many bytes of plaintext were opened.
pub(crate) fn open(
    roster: &Roster,
    header: &Header,
    keys: &FileKeys,
    source: Source<'_>,
    sink: Sink<'_>,
    runs: Option<Vec<Range<u64>>>,
    progress: &dyn Progress,
) -> Result<u64> {
    let ranged = source.by_range();
    let is_whole = runs.is_none();
    let opened = Input::new(source, |len| header.layout_for_file(len), runs)
        .and_then(|input| transfer(roster, Op::Open, header, keys, input, sink, is_whole, progress));
    opened.map_err(|error| match ranged {
        Some(input) => salvage::explain(error, header, keys, &*input),
        None => error,
    })
}

#[allow(clippy::too_many_arguments, reason = "both ends, the keys, the engines, and who is told")]
fn transfer<'a>(
    roster: &Roster,
    op: Op,
    header: &'a Header,
    keys: &FileKeys,
    input: Input<'a>,
    sink: Sink<'a>,
    is_whole: bool,
    progress: &'a dyn Progress,
) -> Result<u64> {
    let output = match sink {
        Sink::Ranged(output) => {
            let (len, filling) = match op {
                Op::Seal => (input.layout().map(Layout::file_len), Filling::Full),
                Op::Open => (input.layout().map(Layout::plaintext_len), Filling::Sparse),
            };
            output.expect(len, filling).map_err(Error::Write)?;
            Output::Ranged(output)
        }
        Sink::Stream(writer) => {
            Output::Stream(Mutex::new(StreamOut { writer, next: 0, aborted: false }), Condvar::new())
        }
        Sink::Nothing => Output::Nothing,
    };
    let work = Transfer {
        op,
        header,
        suite: header.suite(),
        keys: keys.of_jobs(),
        input,
        output,
        done: AtomicU64::new(0),
        progress,
    };
    schedule::run(roster, &work)?;
    let len = work.done.into_inner();
    match work.output {
        // Zeros at its end may have been left out.
        Output::Ranged(output) if op == Op::Open && is_whole => output.set_len(len).map_err(Error::Write)?,
        Output::Ranged(_) | Output::Nothing => {}
        Output::Stream(out, _) => lock(&out).writer.flush().map_err(Error::Write)?,
    }
    Ok(len)
}

/// The work on one file.
struct Transfer<'a> {
    op: Op,
    header: &'a Header,
    suite: Suite,
    keys: Arc<[ContentKeys]>,
    input: Input<'a>,
    output: Output<'a>,
    done: AtomicU64,
    progress: &'a dyn Progress,
}

enum Input<'a> {
    /// An input that is read by range, and the chunks that no worker has taken.
    Ranged { input: Arc<dyn Snapshot + 'a>, layout: Layout, todo: Todo },
    /// `short_len` is the length, if the stream is short.
    Stream { stream: Mutex<StreamIn<'a>>, short_len: Option<u64> },
}

impl<'a> Input<'a> {
    /// `layout` gives the layout that belongs to a file's length. Without `runs`, all chunks are to be done.
    fn new(
        source: Source<'a>,
        layout: impl FnOnce(u64) -> Result<Layout>,
        runs: Option<Vec<Range<u64>>>,
    ) -> Result<Self> {
        match source.0 {
            Kind::Ranged(input) => {
                let layout = layout(input.size().map_err(Error::Read)?)?;
                let all = 0..layout.chunks();
                Ok(Input::Ranged { input, layout, todo: Todo::new(runs.unwrap_or_else(|| vec![all])) })
            }
            Kind::Stream(mut reader, _) => {
                let short_len = reader.short_len()?;
                Ok(Input::Stream { short_len, stream: Mutex::new(StreamIn { reader, next: 0, ended: false }) })
            }
        }
    }

    fn layout(&self) -> Option<&Layout> {
        if let Input::Ranged { layout, .. } = self { Some(layout) } else { None }
    }
}

struct StreamIn<'a> {
    reader: LookAhead<'a>,
    /// The number of the next chunk.
    next: u64,
    ended: bool,
}

enum Output<'a> {
    Ranged(Box<dyn WriteAt + 'a>),
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

    fn suite(&self) -> Suite {
        self.suite
    }

    fn extent(&self) -> Extent {
        let len = match &self.input {
            Input::Ranged { layout, todo, .. } => {
                Some(layout.plaintext_len().min(todo.count() * self.chunk_len() as u64))
            }
            Input::Stream { short_len, .. } => *short_len,
        };
        Extent { len, granule: self.chunk_len() }
    }

    fn room(&self, len: usize) -> usize {
        let chunks = len.div_ceil(self.chunk_len()).max(1);
        self.header_room() + len + chunks * (self.stride() - self.chunk_len())
    }

    fn job(&self, buf: Buffer) -> Job {
        Job::of_chunks(self.op, self.suite, self.header.chunk_log2(), self.keys.clone(), buf)
    }

    fn fill(&self, job: &mut Job, share: Share) -> Result<bool> {
        job.units.clear();
        match &self.input {
            Input::Ranged { input, layout, todo } => self.fill_by_range(job, &**input, layout, todo, share)?,
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
            return Err(altered(&job.units[failed]));
        }
        let (first, _) = chunk(&job.units[0]);
        let chunks = first..first + job.units.len() as u64;
        let len: usize = job.units.iter().map(|unit| unit.data.len()).sum();
        if self.op == Op::Open {
            // The receiver of these chunks may cancel before they are written.
            self.record(job);
            if self.progress.is_cancelled() {
                return Err(Error::Cancelled);
            }
        }
        let (bytes, offset) = match self.op {
            Op::Seal => self.stored(job, first),
            Op::Open => self.plaintext(job, first),
        };
        match &self.output {
            Output::Ranged(output) if self.op == Op::Seal => {
                output.write_all_at(bytes, offset).map_err(Error::Write)?
            }
            Output::Ranged(output) => output.write_sparse_at(bytes, offset).map_err(Error::Write)?,
            Output::Stream(out, turn) => write_in_turn(out, turn, bytes, chunks.clone())?,
            Output::Nothing => {}
        }
        if self.op == Op::Seal {
            self.record(job);
        }
        self.progress.written(chunks);
        self.done.fetch_add(len as u64, Ordering::Relaxed);
        self.progress.advance(len as u64);
        if self.progress.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn abort(&self) {
        match &self.output {
            Output::Stream(out, turn) => {
                lock(out).aborted = true;
                turn.notify_all();
            }
            Output::Ranged(output) => output.abort(),
            Output::Nothing => {}
        }
    }
}

impl Transfer<'_> {
    /// Notes the chunks of a job, which are sealed or authentic.
    fn record(&self, job: &Job) {
        for unit in &job.units {
            let (index, is_last) = chunk(unit);
            let (nonce, tag) = (&unit.nonce[..self.suite.nonce_len()], &unit.tag[..self.suite.tag_len()]);
            self.progress.record(&ChunkHead { index, is_last, nonce, tag });
        }
    }

    fn chunk_len(&self) -> usize {
        1 << self.header.chunk_log2()
    }

    /// The room that a whole chunk takes in the job's buffer. Chunks to be sealed have room for their nonces and tags,
    /// as they will be stored. Chunks to be opened lie next to each other as one piece of plaintext.
    fn stride(&self) -> usize {
        self.chunk_len() + if self.op == Op::Seal { self.suite.overhead() } else { 0 }
    }

    /// The room for the header in the job's buffer, so that it is written with the first chunk.
    fn header_room(&self) -> usize {
        if self.op == Op::Seal { self.header.bytes().len() } else { 0 }
    }

    /// How many chunks the job's buffer holds.
    fn capacity(&self, job: &Job) -> usize {
        ((job.buf.len() - self.header_room()) / self.stride()).max(1)
    }

    /// The next unit of a job, for a chunk of `len` bytes.
    fn unit(&self, job: &Job, index: u64, last: bool, len: usize) -> Unit {
        let end_of_record = self.header_room() + (job.units.len() + 1) * self.stride();
        let start = end_of_record - self.chunk_len();
        Unit { key: 0, nonce: [0; 16], bind: Bind::Chunk { index, last }, data: start..start + len, tag: [0; 32] }
    }

    /// The bytes of a sealed job as they are stored, and where.
    fn stored<'j>(&self, job: &'j mut Job, first: u64) -> (&'j [u8], u64) {
        let (nonce_len, tag_len) = (self.suite.nonce_len(), self.suite.tag_len());
        for unit in &job.units {
            let (nonce, tag) = job.buf[unit.data.start - nonce_len - tag_len..unit.data.start].split_at_mut(nonce_len);
            nonce.copy_from_slice(&unit.nonce[..nonce_len]);
            tag.copy_from_slice(&unit.tag[..tag_len]);
        }
        let header = self.header.bytes();
        let end = job.units.last().map_or(0, |unit| unit.data.end);
        if first == 0 {
            job.buf[..header.len()].copy_from_slice(header);
            return (&job.buf[..end], 0);
        }
        let record = (self.chunk_len() + self.suite.overhead()) as u64;
        (&job.buf[header.len()..end], header.len() as u64 + first * record)
    }

    /// The bytes of an opened job, and where they go.
    fn plaintext<'j>(&self, job: &'j Job, first: u64) -> (&'j [u8], u64) {
        (&job.buf[..job.units.last().map_or(0, |unit| unit.data.end)], first * self.chunk_len() as u64)
    }

    fn fill_by_range(
        &self,
        job: &mut Job,
        input: &dyn Snapshot,
        layout: &Layout,
        todo: &Todo,
        share: Share,
    ) -> Result<()> {
        let capacity = self.capacity(job) as u64;
        let Some(run) = todo.take(|left| share.of(left).min(capacity)) else { return Ok(()) };
        let first = run.start;
        for index in run {
            let unit = self.unit(job, index, layout.is_last(index), layout.data_len(index));
            job.units.push(unit);
        }
        let offset = if self.op == Op::Seal { layout.plaintext_offset(first) } else { layout.file_offset(first) };
        self.read_units(job, input, offset)
    }

    fn fill_from_stream(&self, job: &mut Job, stream: &mut StreamIn) -> Result<()> {
        while job.units.len() < self.capacity(job) && !stream.ended {
            let index = stream.next;
            if self.op == Op::Seal && index >= self.suite.max_chunks() {
                return Err(Error::Read(io::ErrorKind::FileTooLarge.into()));
            }
            let mut unit = self.unit(job, index, false, self.chunk_len());
            // For a short stream, the buffer is as long as the stream.
            unit.data.end = unit.data.end.min(job.buf.len());
            if self.op == Op::Open {
                for part in [&mut unit.nonce[..self.suite.nonce_len()], &mut unit.tag[..self.suite.tag_len()]] {
                    if read_full(&mut stream.reader, part)? < part.len() {
                        return Err(Error::Truncated("it ends within a chunk"));
                    }
                }
            }
            let len = read_full(&mut stream.reader, &mut job.buf[unit.data.clone()])?;
            if len == 0 && index > 0 {
                return Err(Error::Truncated("its last chunk is not whole"));
            }
            stream.ended = len < self.chunk_len() || stream.reader.ends_here()?;
            stream.next += 1;
            unit.data.end = unit.data.start + len;
            unit.bind = Bind::Chunk { index, last: stream.ended };
            job.units.push(unit);
        }
        Ok(())
    }

    /// Reads the job's chunks from `offset` on: plaintext to be sealed, or records to be opened.
    fn read_units(&self, job: &mut Job, input: &dyn Snapshot, mut offset: u64) -> Result<()> {
        let mut rest = &mut job.buf[..];
        let mut at = 0;
        for batch in job.units.chunks_mut(BATCH) {
            let mut parts: [IoSliceMut; 3 * BATCH] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
            for (parts, unit) in parts.chunks_exact_mut(3).zip(batch) {
                let (head, tail) = std::mem::take(&mut rest).split_at_mut(unit.data.end - at);
                if self.op == Op::Open {
                    parts[0] = IoSliceMut::new(&mut unit.nonce[..self.suite.nonce_len()]);
                    parts[1] = IoSliceMut::new(&mut unit.tag[..self.suite.tag_len()]);
                }
                parts[2] = IoSliceMut::new(&mut head[unit.data.start - at..]);
                (rest, at) = (tail, unit.data.end);
            }
            offset = read_parts(input, &mut parts, offset)?;
        }
        Ok(())
    }
}

/// The most chunks that one vectored call reads.
const BATCH: usize = 32;

/// Writes the bytes of these chunks when all before them have been written.
fn write_in_turn(out: &Mutex<StreamOut>, turn: &Condvar, bytes: &[u8], chunks: Range<u64>) -> Result<()> {
    let waiting = |out: &mut StreamOut| out.next != chunks.start && !out.aborted;
    let mut out = turn.wait_while(lock(out), waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
    if out.aborted {
        return Err(Error::Cancelled);
    }
    out.writer.write_all(bytes).map_err(Error::Write)?;
    out.next = chunks.end;
    turn.notify_all();
    Ok(())
}

fn chunk(unit: &Unit) -> (u64, bool) {
    match unit.bind {
        Bind::Chunk { index, last } => (index, last),
        Bind::Message { .. } => unreachable!("files consist of chunks"),
    }
}

fn altered(unit: &Unit) -> Error {
    let (chunk, last) = chunk(unit);
    Error::Altered { chunk, last }
}

/// Locks, even after a worker has panicked: its run ends anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
