//! The one seam: jobs, and the engines that run them.
//!
//! A job is a buffer cut into units, each with its own key, nonce and binding. An engine seals or opens all units of a
//! job in place. It draws no randomness and does no input or output, so every engine gives identical bytes.

use crate::batch::message::Message;
use crate::error::Fault;
use crate::keys::key::ContentKeys;
use crate::op::Op;
use crate::secret::{DEPTH, wipe};
use crate::{Error, Suite};
use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// The length of a message's slices in bytes, and of the longest slices of chunks: [`slice_len`].
pub const SLICE: usize = 4096;

/// The length of the slices of a chunk of 2^`chunk_log2` bytes, in bytes: what one SIMD lane, or one GPU thread,
/// hashes.
///
/// A full chunk has at least eight, so that a short chunk alone keeps eight lanes busy: `docs/format.md`, section 3.
#[must_use]
pub fn slice_len(chunk_log2: u8) -> usize {
    1 << chunk_log2.saturating_sub(3).clamp(4, SLICE.ilog2() as u8)
}

/// A nonce; a suite uses as many bytes of it as it stores.
pub type Nonce = [u8; 16];

/// A tag; a suite uses as many bytes of it as it stores.
pub type Tag = [u8; 32];

/// What a unit's tag binds besides nonce and ciphertext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// A chunk of a file, at its place.
    Chunk {
        /// The chunk's number, from 0.
        index: u64,
        /// Whether it is the file's last.
        last: bool,
    },
    /// A message.
    Message {
        /// Its associated data, in the job's buffer: before its own bytes, and after those of the previous unit.
        ad: Range<usize>,
    },
}

/// A part of a job with its own nonce and tag.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The index of its key among the job's keys.
    pub key: u32,
    /// The nonce: an input of both operations.
    pub nonce: Nonce,
    /// What the tag binds.
    pub bind: Bind,
    /// The unit's bytes in the job's buffer.
    pub data: Range<usize>,
    /// The tag: an output of sealing, an input of opening.
    pub tag: Tag,
}

/// Work for an engine: units of one buffer. Their ranges do not overlap, and lie in ascending order.
pub struct Job {
    /// What to do.
    pub op: Op,
    /// The suite of all units.
    pub suite: Suite,
    /// The length of the slices of all units in bytes: a power of two from 16 to [`SLICE`].
    slice_len: usize,
    /// The keys that units name by their index. Those of chunks and of messages do not mix in one job.
    pub keys: Arc<[ContentKeys]>,
    /// The bytes.
    pub buf: Buffer,
    /// The units.
    pub units: Vec<Unit>,
}

impl Job {
    /// An empty job for chunks of up to 2^`chunk_log2` bytes, around a buffer.
    #[must_use]
    pub fn of_chunks(op: Op, suite: Suite, chunk_log2: u8, keys: Arc<[ContentKeys]>, buf: Buffer) -> Self {
        Self { op, suite, slice_len: slice_len(chunk_log2), keys, buf, units: Vec::new() }
    }

    /// An empty job for messages, around a buffer.
    #[must_use]
    pub fn of_messages(op: Op, suite: Suite, keys: Arc<[ContentKeys]>, buf: Buffer) -> Self {
        Self { op, suite, slice_len: SLICE, keys, buf, units: Vec::new() }
    }

    /// An empty job of the same kind, with the same keys, around another buffer.
    #[must_use]
    pub fn like(&self, buf: Buffer) -> Self {
        let Self { op, suite, slice_len, ref keys, .. } = *self;
        Self { op, suite, slice_len, keys: keys.clone(), buf, units: Vec::new() }
    }

    /// The length of the slices of all units in bytes: a power of two from 16 to [`SLICE`].
    #[must_use]
    pub fn slice_len(&self) -> usize {
        self.slice_len
    }

    /// Overwrites the units that failed with zeros.
    pub(crate) fn wipe(&mut self, verdicts: &Verdicts) {
        for &i in verdicts.failed() {
            self.buf[self.units[i].data.clone()].fill(0);
        }
    }
}

/// Which units of an opened job are not authentic. Sealing fails none.
#[must_use = "what is not authentic must not be used"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    failed: Vec<usize>,
}

impl Verdicts {
    /// Verdicts by which these units failed, in ascending order.
    pub fn from_failed(failed: Vec<usize>) -> Self {
        Self { failed }
    }

    /// The units that failed, in ascending order.
    #[must_use]
    pub fn failed(&self) -> &[usize] {
        &self.failed
    }

    /// Whether no unit failed.
    #[must_use]
    pub fn all_passed(&self) -> bool {
        self.failed.is_empty()
    }
}

/// Properties of an engine.
#[derive(Clone, Debug)]
pub struct EngineInfo {
    /// The name in commands and reports.
    pub name: String,
    /// What it runs on and by which kernels, in words.
    pub detail: String,
    /// The suites that it can run.
    pub suites: &'static [Suite],
    /// How many jobs it runs at the same time: CPU threads, or GPU streams.
    pub workers: usize,
    /// The job length at which it is fastest, in bytes.
    pub preferred_job: usize,
    /// The longest job that it takes, in bytes.
    pub largest_job: usize,
}

/// An engine seals and opens jobs in place. `run` is called from as many threads as it has workers, or from more if it
/// takes over from an engine that failed.
pub trait Engine: Send + Sync {
    /// The engine's properties.
    fn info(&self) -> &EngineInfo;

    /// How much stack its calls use at most, in bytes: the roster wipes it after each call, because the compiler leaves
    /// secrets there. The default is 32 KiB. An engine that calls another one may return the other's value plus 1 KiB
    /// for its own calls.
    fn stack(&self) -> usize {
        DEPTH
    }

    /// A buffer of `len` bytes, of the kind that is best for the engine.
    ///
    /// # Errors
    /// A fault if there is no memory.
    fn buffer(&self, len: usize) -> Result<Buffer, Fault>;

    /// Runs a job. After sealing, every unit holds ciphertext and its tag. After opening, it holds plaintext. The bytes
    /// of the units that the verdicts name are then useless, and the roster wipes them. On a fault the input is
    /// unchanged. Any engine may have made the buffer.
    ///
    /// # Errors
    /// A fault if the engine could not run the job. A wrong tag is a verdict and not a fault.
    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault>;

    /// Seals or opens messages in the caller's memory, with the nonces that they have; none is shorter than nonce and
    /// tag. Verdicts and faults are as with [`Engine::run`], but the caller wipes what failed.
    ///
    /// `None`, the default, means that the engine runs jobs only: the messages are then copied into jobs. An engine
    /// that works on ordinary memory avoids the copies.
    fn messages(&self, op: Op, suite: Suite, messages: &mut [Message<'_>]) -> Option<Result<Verdicts, Fault>> {
        let _ = (op, suite, messages);
        None
    }

    /// Whether the last fault means that the machine computes wrongly, so that no other engine may take over. The default is no.
    fn is_wrong(&self) -> bool {
        false
    }
}

/// Memory that an engine made for jobs.
pub trait Memory: Any + Send {
    /// All bytes of the memory.
    fn bytes(&self) -> &[u8];
    /// All bytes of the memory, to write to.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A job's bytes: aligned or pinned as its engine made them, wiped on drop.
pub struct Buffer(Box<dyn Memory>);

impl Buffer {
    /// Takes memory that an engine made.
    pub fn new(memory: impl Memory + 'static) -> Self {
        Self(Box::new(memory))
    }

    /// `len` zero bytes of ordinary memory, aligned to a page.
    ///
    /// # Panics
    /// If there is not enough memory.
    #[must_use]
    pub fn paged(len: usize) -> Self {
        Self::try_paged(len).expect("there is enough memory")
    }

    /// `len` zero bytes of ordinary memory, aligned to a page, if there is enough memory.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not enough memory.
    pub fn try_paged(len: usize) -> Result<Self, Error> {
        const PAGE: usize = 4096;
        let mut storage = Vec::new();
        storage.try_reserve_exact(len + PAGE - 1).map_err(|_| Error::Memory(format!("{len} bytes are needed")))?;
        storage.resize(len + PAGE - 1, 0);
        let start = storage.as_ptr().align_offset(PAGE);
        Ok(Self::new(Paged { storage, used: start..start + len }))
    }

    /// The memory, if it is of this kind: for the engine that made it.
    pub fn memory_mut<M: Memory>(&mut self) -> Option<&mut M> {
        (&mut *self.0 as &mut dyn Any).downcast_mut()
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        wipe(self.0.bytes_mut());
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

struct Paged {
    storage: Vec<u8>,
    used: Range<usize>,
}

impl Memory for Paged {
    fn bytes(&self) -> &[u8] {
        &self.storage[self.used.clone()]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.used.clone()]
    }
}
