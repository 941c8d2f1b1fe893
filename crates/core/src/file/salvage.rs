//! Saving the intact chunks of a damaged file.

use crate::cpu::{CpuEngine, Levels};
use crate::file::read_at::{ReadAt, read_full_at};
use crate::file::source::Progress;
use crate::file::write_at::WriteAt;
use crate::format::header::Header;
use crate::keys::key::FileKeys;
use crate::op::Op;
use crate::seam::{Bind, Buffer, Engine, Job, Unit};
use crate::secret::wiped;
use crate::{Error, Result};
use std::ops::Range;

/// What [`ProtectedFile::salvage`](crate::ProtectedFile::salvage) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Bytes of plaintext that are authentic.
    pub saved: u64,
    /// The lost ranges of the plaintext, in order. They are filled with zeros.
    pub lost: Vec<Range<u64>>,
    /// Bytes of these ranges whose chunks could not be read. The others are damaged.
    pub unread: u64,
    /// Whether the true end of the file was found, with nothing after it.
    pub whole_length: bool,
}

impl Salvage {
    /// Whether the file is intact.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.lost.is_empty() && self.whole_length
    }
}

/// Writes all authentic chunks of `source`, whose `header` was read and opened, at their places in the empty file
/// `sink`.
///
/// Chunks are expected at their places, so inserted or removed bytes spoil all chunks after them. A chunk that cannot be read is
/// lost. Fails if no chunk is authentic.
pub(crate) fn salvage(
    engine: &dyn Engine,
    header: &Header,
    keys: &FileKeys,
    source: &dyn ReadAt,
    sink: &dyn WriteAt,
    progress: &dyn Progress,
) -> Result<Salvage> {
    let chunk_len = 1u64 << header.chunk_log2();
    let overhead = header.suite().overhead() as u64;
    let header_len = header.bytes().len() as u64;
    let body = source.size().map_err(Error::Read)?.saturating_sub(header_len);
    let records = body.div_ceil(chunk_len + overhead);
    let buffer = engine.buffer(chunk_len as usize)?;
    let mut job = job(header, keys, buffer);
    let mut found = Salvage::default();
    let mut any = false;
    let mut unread = None;

    for index in 0..records {
        let at = index * (chunk_len + overhead);
        // This is less than nonce and tag. The file was truncated here, and there is nothing to save.
        let Some(len) = (body - at).min(chunk_len + overhead).checked_sub(overhead) else { break };
        // The last record is the file's last chunk only if nothing was cut off or added. So the other possibility is
        // tried too.
        let at_end = index + 1 == records;
        let mut open = || {
            for last in [at_end, !at_end] {
                if open_chunk(engine, &mut job, source, header_len + at, index, len as usize, last)? {
                    return Ok(Some(last));
                }
            }
            Ok(None)
        };
        let offset = index * chunk_len;
        let mut is_past_end = false;
        match open() {
            Ok(Some(last)) => {
                any = true;
                found.saved += len;
                found.whole_length = last && at_end;
                sink.write_sparse_at(&job.buf[..len as usize], offset).map_err(Error::Write)?;
                is_past_end = last && !at_end;
            }
            Ok(None) => found.lose(offset..offset + len),
            Err(error @ Error::Read(_)) => {
                found.lose(offset..offset + len);
                found.unread += len;
                unread = unread.or(Some(error));
            }
            Err(error) => return Err(error),
        }
        sink.set_len(offset + len).map_err(Error::Write)?;
        progress.advance(len);
        if is_past_end {
            // The file was extended. Nothing after its last chunk is authentic.
            break;
        }
    }
    match unread {
        _ if any => Ok(found),
        Some(error) => Err(error),
        None => Err(Error::Altered { chunk: 0, last: records <= 1 }),
    }
}

/// Finds a more exact reason than `error` why a file whose `header` was opened does not open: it ends too early or too
/// late, or a certain chunk is the first damaged one.
pub(crate) fn explain(error: Error, header: &Header, keys: &FileKeys, source: &dyn ReadAt) -> Error {
    /// How many chunks before a damaged one are examined.
    const BACK: u64 = 64;
    if !matches!(error, Error::Altered { .. } | Error::Truncated(_)) {
        return error;
    }
    let look = || -> Result<Option<Error>> {
        let chunk_len = 1u64 << header.chunk_log2();
        let overhead = header.suite().overhead() as u64;
        let header_len = header.bytes().len() as u64;
        let body = source.size().map_err(Error::Read)?.saturating_sub(header_len);
        let records = body.div_ceil(chunk_len + overhead);
        let engine = CpuEngine::serial(Levels::detect());
        let mut job = job(header, keys, engine.buffer(chunk_len as usize)?);
        let mut opens = |index: u64, last| {
            let at = index * (chunk_len + overhead);
            match (body - at).min(chunk_len + overhead).checked_sub(overhead) {
                Some(len) => open_chunk(&engine, &mut job, source, header_len + at, index, len as usize, last),
                None => Ok(false),
            }
        };
        let (newest, is_altered) = match error {
            Error::Altered { chunk, .. } => (chunk, true),
            // The last complete record.
            _ => match (body / (chunk_len + overhead)).checked_sub(1) {
                Some(newest) => (newest, false),
                None => return Ok(None),
            },
        };
        let mut damaged = None;
        for index in (newest.saturating_sub(BACK)..=newest).rev() {
            let at_end = index + 1 == records;
            if opens(index, !at_end)? {
                return Ok(Some(match at_end {
                    true => Error::Truncated("chunks are missing at its end"),
                    false => Error::Extended("it goes on after its last chunk"),
                }));
            }
            if !is_altered || opens(index, at_end)? {
                break;
            }
            damaged = Some(Error::Altered { chunk: index, last: at_end });
        }
        Ok(damaged)
    };
    // If it cannot be read again, the original error stays.
    look().ok().flatten().unwrap_or(error)
}

/// Whether the keys that `header` gives are those of the file's chunks: the last one is authentic, or else the first.
pub(crate) fn opens(header: &Header, keys: &FileKeys, source: &dyn ReadAt) -> Result<bool> {
    let len = source.size().map_err(Error::Read)?;
    let Ok(layout) = header.layout_for_file(len) else { return Ok(false) };
    let engine = CpuEngine::serial(Levels::detect());
    let buffer = engine.buffer(1 << header.chunk_log2())?;
    let mut job = job(header, keys, buffer);
    for index in [layout.chunks() - 1, 0] {
        let (at, len) = (layout.file_offset(index), layout.data_len(index));
        match open_chunk(&engine, &mut job, source, at, index, len, layout.is_last(index)) {
            Ok(true) => return Ok(true),
            // The other one may be authentic.
            Ok(false) | Err(Error::Read(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

impl Salvage {
    fn lose(&mut self, range: Range<u64>) {
        self.whole_length = false;
        match self.lost.last_mut() {
            Some(before) if before.end == range.start => before.end = range.end,
            _ => self.lost.push(range),
        }
    }
}

fn job(header: &Header, keys: &FileKeys, buf: Buffer) -> Job {
    Job::of_chunks(Op::Open, header.suite(), header.chunk_log2(), keys.of_jobs(), buf)
}

/// Reads the chunk that begins at `offset` of the file into the job, and opens it.
fn open_chunk(
    engine: &dyn Engine,
    job: &mut Job,
    source: &dyn ReadAt,
    offset: u64,
    index: u64,
    len: usize,
    last: bool,
) -> Result<bool> {
    let mut unit = Unit { key: 0, nonce: [0; 16], bind: Bind::Chunk { index, last }, data: 0..len, tag: [0; 32] };
    let (nonce, tag) = (&mut unit.nonce[..job.suite.nonce_len()], &mut unit.tag[..job.suite.tag_len()]);
    let (tag_at, data_at) = (offset + nonce.len() as u64, offset + (nonce.len() + tag.len()) as u64);
    read_full_at(source, nonce, offset)?;
    read_full_at(source, tag, tag_at)?;
    read_full_at(source, &mut job.buf[..len], data_at)?;
    job.units = vec![unit];
    Ok(wiped(|| engine.run(job))?.all_passed())
}
