//! Finding out what an interrupted run has done: the chunks of its output whose tags are right.
//!
//! A protected output has the tags beside its chunks. For a plaintext output they are in the protected file, and the
//! plaintext is encrypted again to compare them.

use crate::file::read_at::{ReadAt, read_full_at};
use crate::file::source::Progress;
use crate::file::todo::{Done, Todo};
use crate::file::write_at::Draft;
use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::keys::key::{ContentKeys, FileKeys};
use crate::op::Op;
use crate::roster::Roster;
use crate::schedule::{self, Extent, Share, Work};
use crate::seam::{Bind, Buffer, Job, Tag, Unit, Verdicts};
use crate::{Error, Result, Suite};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use subtle::ConstantTimeEq;

/// The output of an interrupted run.
#[derive(Clone, Copy)]
pub(crate) enum Partial<'a> {
    /// It is being protected.
    Protected(&'a dyn Draft),
    /// It is the plaintext of a protected file.
    Plaintext { output: &'a dyn Draft, protected: &'a (dyn ReadAt + Send + Sync) },
}

/// Finds the missing chunks of a run, as runs in ascending order. `progress` is notified of the others.
pub(crate) fn missing(
    roster: &Roster,
    header: &Header,
    keys: &FileKeys,
    layout: &Layout,
    partial: Partial<'_>,
    within: Range<u64>,
    progress: &dyn Progress,
) -> Result<Vec<Range<u64>>> {
    let survey = Survey {
        header,
        suite: header.suite(),
        keys: keys.of_jobs(),
        layout,
        partial,
        todo: Todo::new(candidates(header, layout, partial, &within)?.into_iter().map(|run| cut(&run, &within))),
        done: Mutex::default(),
        progress,
    };
    schedule::run(roster, &survey)?;
    Ok(survey.done.into_inner().unwrap_or_else(PoisonError::into_inner).others(within))
}

/// The intersection of two runs.
fn cut(run: &Range<u64>, within: &Range<u64>) -> Range<u64> {
    let start = run.start.max(within.start);
    start..run.end.min(within.end).max(start)
}

/// The chunks of a run, and perhaps some next to it, that are not entirely in holes of the output.
fn candidates(header: &Header, layout: &Layout, partial: Partial<'_>, within: &Range<u64>) -> Result<Vec<Range<u64>>> {
    let (output, head, record) = match partial {
        Partial::Protected(output) => (output, header.bytes().len() as u64, record_len(header)),
        Partial::Plaintext { output, .. } => (output, 0, 1 << header.chunk_log2()),
    };
    let len = output.size().map_err(Error::Write)?;
    let mut runs: Vec<Range<u64>> = Vec::new();
    let offset = |chunk: u64| head + chunk.saturating_mul(record);
    let mut at = offset(within.start);
    let last = len.min(offset(within.end));
    while at < last {
        let Some(Range { start, end }) = output.written_from(at).map_err(Error::Write)? else { break };
        let chunk = |offset: u64| offset.saturating_sub(head) / record;
        let run = chunk(start)..(chunk(end.max(start + 1) - 1) + 1).min(layout.chunks());
        match runs.last_mut() {
            Some(before) if before.end >= run.start => before.end = before.end.max(run.end),
            _ => runs.push(run),
        }
        at = end.max(start + 1);
    }
    // A chunk that the output does not have to its end cannot be complete.
    let last_end = |index: u64| match partial {
        Partial::Protected(_) => {
            layout.file_offset(index) + (header.suite().overhead() + layout.data_len(index)) as u64
        }
        Partial::Plaintext { .. } => layout.plaintext_offset(index) + layout.data_len(index) as u64,
    };
    while let Some(run) = runs.last_mut() {
        while !run.is_empty() && last_end(run.end - 1) > len {
            run.end -= 1;
        }
        if !run.is_empty() {
            break;
        }
        runs.pop();
    }
    Ok(runs)
}

fn record_len(header: &Header) -> u64 {
    (1 << header.chunk_log2()) + header.suite().overhead() as u64
}

struct Survey<'a> {
    header: &'a Header,
    suite: Suite,
    keys: Arc<[ContentKeys]>,
    layout: &'a Layout,
    partial: Partial<'a>,
    todo: Todo,
    done: Mutex<Done>,
    progress: &'a dyn Progress,
}

impl Work for Survey<'_> {
    type Error = Error;

    fn suite(&self) -> Suite {
        self.suite
    }

    fn extent(&self) -> Extent {
        let granule = 1 << self.header.chunk_log2();
        Extent { len: Some(self.todo.count() * granule as u64), granule }
    }

    fn room(&self, len: usize) -> usize {
        len.div_ceil(1 << self.header.chunk_log2()).max(1) * self.stride()
    }

    fn job(&self, buf: Buffer) -> Job {
        let op = match self.partial {
            Partial::Protected(_) => Op::Open,
            Partial::Plaintext { .. } => Op::Seal,
        };
        Job::of_chunks(op, self.suite, self.header.chunk_log2(), self.keys.clone(), buf)
    }

    fn fill(&self, job: &mut Job, share: Share) -> Result<bool> {
        let capacity = (job.buf.len() / self.stride()).max(1) as u64;
        let head = self.stride() - (1 << self.header.chunk_log2());
        let run = loop {
            let Some(run) = self.todo.take(|left| share.of(left).min(capacity)) else { return Ok(false) };
            job.units.clear();
            for index in run.clone() {
                let start = (index - run.start) as usize * self.stride() + head;
                let (last, len) = (self.layout.is_last(index), self.layout.data_len(index));
                let bind = Bind::Chunk { index, last };
                job.units.push(Unit { key: 0, nonce: [0; 16], bind, data: start..start + len, tag: [0; 32] });
            }
            let end = job.units.last().map_or(0, |unit| unit.data.end);
            let (output, offset) = match self.partial {
                Partial::Protected(output) => (output, self.layout.file_offset(run.start)),
                Partial::Plaintext { output, .. } => (output, self.layout.plaintext_offset(run.start)),
            };
            // A chunk that cannot be read counts as missing.
            if read_full_at(output, &mut job.buf[..end], offset).is_ok() {
                break run;
            }
        };
        for (unit, index) in job.units.iter_mut().zip(run) {
            match self.partial {
                Partial::Protected(_) => {
                    let head = &job.buf[unit.data.start - head..unit.data.start];
                    let (nonce, tag) = head.split_at(self.suite.nonce_len());
                    unit.nonce[..nonce.len()].copy_from_slice(nonce);
                    unit.tag[..tag.len()].copy_from_slice(tag);
                }
                Partial::Plaintext { protected, .. } => {
                    let nonce = &mut unit.nonce[..self.suite.nonce_len()];
                    read_full_at(protected, nonce, self.layout.file_offset(index))?;
                }
            }
        }
        Ok(true)
    }

    fn finish(&self, job: &mut Job, verdicts: &Verdicts) -> Result<()> {
        let (mut done, mut bytes) = (Done::default(), 0);
        for (place, unit) in job.units.iter().enumerate() {
            let Bind::Chunk { index, .. } = unit.bind else { continue };
            let is_right = match self.partial {
                Partial::Protected(_) => verdicts.failed().binary_search(&place).is_err(),
                Partial::Plaintext { protected, .. } => {
                    let mut tag: Tag = [0; 32];
                    let tag = &mut tag[..self.suite.tag_len()];
                    let offset = self.layout.file_offset(index) + self.suite.nonce_len() as u64;
                    read_full_at(protected, tag, offset)?;
                    unit.tag[..tag.len()].ct_eq(tag).into()
                }
            };
            if is_right {
                done.add(index..index + 1);
                bytes += unit.data.len() as u64;
            }
        }
        let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.runs().for_each(|run| all.add(run));
        drop(all);
        self.progress.advance(bytes);
        Ok(())
    }

    fn abort(&self) {}
}

impl Survey<'_> {
    /// The room of a whole chunk in a job, with its nonce and tag if these are stored beside it.
    fn stride(&self) -> usize {
        let overhead = match self.partial {
            Partial::Protected(_) => self.suite.overhead(),
            Partial::Plaintext { .. } => 0,
        };
        (1 << self.header.chunk_log2()) + overhead
    }
}
