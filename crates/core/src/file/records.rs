//! Runs of chunks in memory in their stored form, each after its nonce and tag. They are opened and sealed in place.

use crate::format::chunk_size::ChunkSize;
use crate::format::header::Header;
use crate::keys::key::{ContentKeys, FileKeys};
use crate::op::Op;
use crate::roster::{Member, Roster};
use crate::seam::{self, Bind, Buffer, Job, Unit, Verdicts};
use crate::secret::wipe;
use crate::{Error, Result, Suite};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// The chunks of one file.
pub(crate) struct Records {
    pub suite: Suite,
    /// The plaintext of every chunk but the last, in bytes.
    pub chunk_len: usize,
    chunk_log2: u8,
    keys: Arc<[ContentKeys]>,
}

impl Records {
    pub fn new(header: &Header, keys: &FileKeys) -> Self {
        let chunk_log2 = header.chunk_log2();
        let keys = keys.of_jobs();
        Self { suite: header.suite(), chunk_len: 1 << chunk_log2, chunk_log2, keys }
    }

    /// The size of chunks.
    pub fn chunk_size(&self) -> ChunkSize {
        ChunkSize(self.chunk_log2)
    }

    /// The length of a whole chunk with its nonce and tag.
    pub fn record_len(&self) -> usize {
        self.suite.overhead() + self.chunk_len
    }

    /// Where the plaintext of a run's chunk lies in memory; `place` counts the chunks of the run.
    pub fn data(&self, place: usize, len: usize) -> Range<usize> {
        let start = place * self.record_len() + self.suite.overhead();
        start..start + len
    }

    /// The unit of a run's chunk.
    pub fn unit(&self, place: usize, index: u64, last: bool, len: usize) -> Unit {
        let data = self.data(place, len);
        Unit { key: 0, nonce: [0; 16], bind: Bind::Chunk { index, last }, data, tag: [0; 32] }
    }

    /// Opens a run where it lies. Returns how many of its chunks are authentic, from the first on. The others are
    /// wiped.
    ///
    /// An engine's fault is the only error. The memory is then unchanged.
    pub fn open(&self, roster: &Roster, member: &Member, memory: &mut Memory, units: Vec<Unit>) -> Result<usize> {
        let all = units.len();
        let verdicts = self.open_each(roster, member, memory, units)?;
        let authentic = verdicts.failed().first().copied().unwrap_or(all);
        let end = memory.bytes_mut().len();
        wipe(&mut memory.bytes_mut()[(authentic * self.record_len()).min(end)..]);
        Ok(authentic)
    }

    /// Opens a run in place. Each chunk is checked separately: only those that are not authentic are wiped.
    pub fn open_each(
        &self,
        roster: &Roster,
        member: &Member,
        memory: &mut Memory,
        mut units: Vec<Unit>,
    ) -> Result<Verdicts> {
        self.take_heads(memory.bytes(), &mut units);
        let mut job = self.job(Op::Open, memory, units);
        let ran = roster.by_turns(member, self.suite, |engine| engine.run(&mut job));
        let verdicts = ran.map(|(verdicts, _)| {
            job.wipe(&verdicts);
            verdicts
        });
        *memory = Memory::of(job.buf);
        Ok(verdicts?)
    }

    /// Seals a run where it lies, under new nonces.
    pub fn seal(&self, roster: &Roster, member: &Member, memory: &mut Memory, mut units: Vec<Unit>) -> Result<()> {
        self.draw_nonces(&mut units)?;
        let mut job = self.job(Op::Seal, memory, units);
        let ran = roster.by_turns(member, self.suite, |engine| engine.run(&mut job));
        let Job { buf, units, .. } = job;
        *memory = Memory::of(buf);
        let _none_fails = ran?;
        self.put_heads(memory.bytes_mut(), &units);
        Ok(())
    }

    /// Gives the units new nonces.
    fn draw_nonces(&self, units: &mut [Unit]) -> Result<()> {
        // One call for all of them.
        let len = self.suite.nonce_len();
        let mut nonces = vec![0; units.len() * len];
        getrandom::fill(&mut nonces).map_err(Error::Random)?;
        for (unit, nonce) in units.iter_mut().zip(nonces.chunks(len)) {
            unit.nonce[..len].copy_from_slice(nonce);
        }
        Ok(())
    }

    /// Makes a job of records. It takes the memory.
    fn job(&self, op: Op, memory: &mut Memory, units: Vec<Unit>) -> Job {
        let buf = Buffer::new(mem::take(memory));
        let mut job = Job::of_chunks(op, self.suite, self.chunk_log2, self.keys.clone(), buf);
        job.units = units;
        job
    }

    /// Makes the job that opens records whose bytes stay where they lie.
    pub fn job_elsewhere(&self, stored: &[u8], mut units: Vec<Unit>) -> Job {
        self.take_heads(stored, &mut units);
        self.job(Op::Open, &mut Memory::default(), units)
    }

    /// Makes the job that seals records whose bytes lie elsewhere, under new nonces.
    pub fn new_job_elsewhere(&self, mut units: Vec<Unit>) -> Result<Job> {
        self.draw_nonces(&mut units)?;
        Ok(self.job(Op::Seal, &mut Memory::default(), units))
    }

    /// Stores the nonces and tags of units before their bytes.
    pub fn put_heads(&self, memory: &mut [u8], units: &[Unit]) {
        for unit in units {
            let (nonce, tag) = self.head(memory, unit);
            nonce.copy_from_slice(&unit.nonce[..nonce.len()]);
            tag.copy_from_slice(&unit.tag[..tag.len()]);
        }
    }

    /// Gives the units the nonces and tags that are stored before their bytes.
    fn take_heads(&self, stored: &[u8], units: &mut [Unit]) {
        for unit in units {
            let head = &stored[unit.data.start - self.suite.overhead()..unit.data.start];
            let (nonce, tag) = head.split_at(self.suite.nonce_len());
            unit.nonce[..nonce.len()].copy_from_slice(nonce);
            unit.tag[..tag.len()].copy_from_slice(tag);
        }
    }

    /// The nonce and tag that are stored before a unit's bytes, to be written.
    fn head<'m>(&self, memory: &'m mut [u8], unit: &Unit) -> (&'m mut [u8], &'m mut [u8]) {
        let head = &mut memory[unit.data.start - self.suite.overhead()..unit.data.start];
        head.split_at_mut(self.suite.nonce_len())
    }
}

/// Memory for a run, wiped on drop. Unlike a job's buffer it can be read by several threads at once.
#[derive(Default)]
pub(crate) struct Memory {
    storage: Vec<u8>,
    used: Range<usize>,
}

impl Memory {
    /// `len` zero bytes. The data of the first chunk, after `before` bytes, are aligned for the kernels.
    pub fn new(len: usize, before: usize) -> Result<Self> {
        const LINE: usize = 64;
        let mut storage = Vec::new();
        storage.try_reserve_exact(len + LINE).map_err(|_| Error::Memory(format!("{len} bytes are needed")))?;
        storage.resize(len + LINE, 0);
        let start = (storage.as_ptr().align_offset(LINE) + LINE - before % LINE) % LINE;
        Ok(Self { storage, used: start..start + len })
    }

    /// Takes the memory back from a job. An engine may have put another buffer in its place.
    fn of(mut buf: Buffer) -> Self {
        match buf.memory_mut() {
            Some(memory) => mem::take(memory),
            None => Self { used: 0..buf.len(), storage: buf.to_vec() },
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.storage[self.used.clone()]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.used.clone()]
    }
}

impl seam::Memory for Memory {
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        wipe(&mut self.storage);
    }
}
