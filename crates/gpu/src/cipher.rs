//! Launches of AES: one run of data under one key, spans with keys of their own; for papers also ECB, and users whose keys
//! the device expands.

#[cfg(feature = "papers")]
mod papers;

#[cfg(feature = "papers")]
pub use papers::Users;

use crate::device::{ALIGN, Buffer, Stream};
use crate::driver::{Argument, Launch};
use crate::error::Result;
use crate::kernel::{Kernel, Module};
use crate::schedule::{self, KEY_WORDS};
use std::fmt;
use zeroize::Zeroizing;

/// As many blocks as a group of the kernels with tables takes at most.
pub const MAX_SPAN: u32 = 16384;

/// The kernel that the engine runs.
const SPANS: &str = "aes_ctr_spans";

/// How the cipher is computed. All give the same bytes. `docs/security.md` says why the default is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Bit planes, without tables: no address and no branch depends on data or key.
    #[default]
    Bitsliced,
    /// Lookups in T0, one copy for each memory bank; its words are turned by byte permutation.
    #[cfg(feature = "papers")]
    Table1,
    /// Lookups in four tables, eight copies.
    #[cfg(feature = "papers")]
    Table4,
    /// Lookups in four tables, one copy for each memory bank: 128 KiB of local memory.
    #[cfg(feature = "papers")]
    Table4Wide,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; if cfg!(feature = "papers") { 4 } else { 1 }] = [
        Variant::Bitsliced,
        #[cfg(feature = "papers")]
        Variant::Table1,
        #[cfg(feature = "papers")]
        Variant::Table4,
        #[cfg(feature = "papers")]
        Variant::Table4Wide,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Bitsliced => "bitsliced",
            #[cfg(feature = "papers")]
            Variant::Table1 => "table1",
            #[cfg(feature = "papers")]
            Variant::Table4 => "table4",
            #[cfg(feature = "papers")]
            Variant::Table4Wide => "table4-wide",
        }
    }

    /// The module of its kernel for spans, and, if it has tables, of all its kernels.
    pub fn module(self) -> Module {
        match self {
            Variant::Bitsliced => Module::AesBitslice,
            #[cfg(feature = "papers")]
            Variant::Table1 => Module::AesTable1,
            #[cfg(feature = "papers")]
            Variant::Table4 => Module::AesTable4,
            #[cfg(feature = "papers")]
            Variant::Table4Wide => Module::AesTable4Wide,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a kernel of AES is cut into threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AesLaunch {
    /// Which kernels.
    pub variant: Variant,
    /// Threads a group (CUDA: a block).
    pub threads: u32,
    /// Granularity: blocks of 16 bytes a thread. The bitsliced kernels have 32, always.
    pub granularity: u32,
}

impl Default for AesLaunch {
    fn default() -> Self {
        Self::new(Variant::default())
    }
}

impl AesLaunch {
    /// What suits a variant on large data.
    pub fn new(variant: Variant) -> Self {
        match variant {
            Variant::Bitsliced => Self { variant, threads: 128, granularity: 32 },
            #[cfg(feature = "papers")]
            Variant::Table1 | Variant::Table4 => Self { variant, threads: 256, granularity: 16 },
            #[cfg(feature = "papers")]
            Variant::Table4Wide => Self { variant, threads: 1024, granularity: 16 },
        }
    }

    /// The kernel of that name among those of the variant, in whichever module it is.
    pub fn kernel(&self, entry: &'static str) -> Kernel {
        #[cfg(feature = "papers")]
        if self.bitsliced() && entry != SPANS {
            return Kernel { module: Module::AesBitslicePapers, entry };
        }
        Kernel { module: self.variant.module(), entry }
    }

    fn bitsliced(&self) -> bool {
        self.variant == Variant::Bitsliced
    }

    fn check(&self, stream: &Stream) -> Result<()> {
        let Self { variant, threads, granularity } = *self;
        let device = stream.device();
        if threads == 0 || granularity == 0 {
            return device.refuse("a launch without threads, or of threads without blocks");
        }
        if self.bitsliced() && granularity != 32 {
            return device.refuse(format!("the bitsliced kernels take 32 blocks a thread, not {granularity}"));
        }
        if !self.bitsliced() && u64::from(threads) * u64::from(granularity) > MAX_SPAN.into() {
            return device.refuse(format!("{variant}: {threads} × {granularity} blocks a group, {MAX_SPAN} at most"));
        }
        Ok(())
    }
}

/// How far apart the 32 blocks of a thread lie: as far as lets neighbouring threads, up to 32, share their memory lines.
fn stride_log(blocks: u64) -> u32 {
    blocks.div_ceil(32).next_power_of_two().ilog2().min(5)
}

/// Which way AES-ECB goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Encryption; CTR uses it both ways.
    Encrypt,
    /// Decryption.
    #[cfg(feature = "papers")]
    Decrypt,
}

/// Keys on a device, expanded on the host in time that does not depend on them.
#[derive(Debug)]
pub struct RoundKeys {
    buffer: Buffer,
    direction: Direction,
    rounds: u32,
    count: u32,
}

/// A part of the data with a key and a counter of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins in the buffer: a multiple of 16.
    pub at: usize,
    /// Its length in bytes.
    pub len: usize,
    /// Which of the keys.
    pub key: u32,
    /// The counter block of its first block.
    pub counter: [u8; 16],
}

/// Spans on a device. They do not overlap.
#[derive(Debug)]
pub struct Spans {
    buffer: Buffer,
    count: u32,
    /// Of the longest.
    blocks: u64,
    /// Where the last ends.
    end: usize,
    /// One more than the largest key.
    keys: u32,
}

impl Stream {
    /// Brings keys to the device: at least one, all of 16, of 24 or of 32 bytes.
    pub fn round_keys(&mut self, keys: &[&[u8]], direction: Direction) -> Result<RoundKeys> {
        self.round_keys_again(keys, direction, None)
    }

    /// The same in the memory of others, where there is room: nothing waits for memory then.
    pub fn round_keys_again(
        &mut self,
        keys: &[&[u8]],
        direction: Direction,
        old: Option<RoundKeys>,
    ) -> Result<RoundKeys> {
        let len = self.key_len(keys)?;
        let mut words = Zeroizing::new(Vec::with_capacity(keys.len() * KEY_WORDS));
        for key in keys {
            let round_keys = Zeroizing::new(match direction {
                Direction::Encrypt => schedule::expand(key),
                #[cfg(feature = "papers")]
                Direction::Decrypt => schedule::expand_inverse(key),
            });
            words.extend_from_slice(&*round_keys);
        }
        let buffer = self.buffer_of_words(&words, old.map(|old| old.buffer))?;
        Ok(RoundKeys { buffer, direction, rounds: len as u32 / 4 + 6, count: keys.len() as u32 })
    }

    /// Overwrites keys with zeros, as soon as all that was given before is done.
    pub(crate) fn zero_round_keys(&mut self, keys: &RoundKeys) -> Result<()> {
        self.zero(&keys.buffer, keys.buffer.len())
    }

    fn key_len(&self, keys: &[&[u8]]) -> Result<usize> {
        let len = keys.first().map_or(0, |key| key.len());
        if ![16, 24, 32].contains(&len) || keys.iter().any(|key| key.len() != len) || keys.len() > 1 << 24 {
            return self.device().refuse("AES keys are 16, 24 or 32 bytes, all alike, and at most 2^24");
        }
        Ok(len)
    }

    /// Brings spans to the device, in ascending order.
    pub fn spans(&mut self, spans: &[Span]) -> Result<Spans> {
        self.spans_again(spans, None)
    }

    /// The same in the memory of others, where there is room.
    pub fn spans_again(&mut self, spans: &[Span], old: Option<Spans>) -> Result<Spans> {
        let (mut blocks, mut end, mut keys) = (0, 0, 0);
        let mut words = Vec::with_capacity(spans.len() * 8);
        for span in spans {
            if !span.at.is_multiple_of(ALIGN) || span.at < end || span.key == u32::MAX {
                return self.device().refuse("spans start at multiples of 16 and do not overlap");
            }
            let Some(span_end) = span.at.checked_add(span.len).filter(|end| end.div_ceil(ALIGN) < 1 << 31) else {
                return self.device().refuse("a span ends beyond 32 GiB");
            };
            if span.len > u32::MAX as usize {
                return self.device().refuse("a span is longer than 4 GiB");
            }
            let counter = span.counter.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word));
            words.extend([(span.at / ALIGN) as u32, span.len as u32, span.key, 0]);
            words.extend(counter);
            // A span owns its last block whole, so that no two touch the same.
            end = span_end.next_multiple_of(ALIGN);
            blocks = blocks.max(span.len.div_ceil(ALIGN) as u64);
            keys = keys.max(span.key + 1);
        }
        if spans.len() > 1 << 24 {
            return self.device().refuse("more than 2^24 spans");
        }
        let buffer = self.buffer_of_words(&words, old.map(|old| old.buffer))?;
        Ok(Spans { buffer, count: spans.len() as u32, blocks, end, keys })
    }

    /// AES-CTR of spans, each under its key and counter: a group a span with tables (P2's GCS, where spans are slices),
    /// 32 blocks a thread without.
    pub fn aes_ctr_spans(
        &mut self,
        launch: &AesLaunch,
        keys: &RoundKeys,
        spans: &Spans,
        data: &mut Buffer,
    ) -> Result<()> {
        launch.check(self)?;
        self.check(&spans.buffer, 0..0)?;
        self.check(data, 0..spans.end)?;
        if spans.count == 0 {
            return Ok(());
        }
        self.check_keys(keys, spans.keys - 1, Direction::Encrypt)?;
        let stride_log = stride_log(spans.blocks);
        let parts = spans.blocks.div_ceil(32 << stride_log).max(1);
        let groups = if launch.bitsliced() {
            let threads = u64::from(spans.count) * (parts << stride_log);
            if threads >= 1 << 31 {
                return self.device().refuse("spans of too different lengths: the longest times their number");
            }
            threads.div_ceil(launch.threads.into())
        } else if spans.blocks > MAX_SPAN.into() {
            return self.device().refuse(format!("a span of {} blocks: {MAX_SPAN} at most with tables", spans.blocks));
        } else {
            spans.count.into()
        };
        let memory = [
            data.argument(),
            keys.buffer.argument(),
            self.table(launch, &keys.buffer, false)?,
            spans.buffer.argument(),
        ];
        let numbers = [spans.count, keys.rounds, stride_log, parts as u32];
        // SAFETY: the kernel writes the spans, which end within data, and reads the spans, their keys and T0.
        unsafe { self.aes(launch, SPANS, groups, &memory, &numbers) }
    }

    /// What stands for the tables of a launch: T0 or its inverse for kernels with tables. The others do not read it, and
    /// get their keys once more.
    #[cfg_attr(
        not(feature = "papers"),
        expect(unused_variables, clippy::unnecessary_wraps, clippy::needless_pass_by_ref_mut)
    )]
    fn table(&mut self, launch: &AesLaunch, keys: &Buffer, inverse: bool) -> Result<Argument> {
        #[cfg(feature = "papers")]
        if !launch.bitsliced() {
            return self.tables(inverse);
        }
        Ok(keys.argument())
    }

    fn check_keys(&self, keys: &RoundKeys, key: u32, direction: Direction) -> Result<()> {
        self.check(&keys.buffer, 0..0)?;
        if key >= keys.count || keys.direction != direction {
            return self.device().refuse("the round keys are not there, or are those of the other direction");
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Stream::launch`].
    unsafe fn aes(
        &mut self,
        launch: &AesLaunch,
        entry: &'static str,
        groups: u64,
        memory: &[Argument],
        numbers: &[u32],
    ) -> Result<()> {
        let Ok(groups) = u32::try_from(groups) else { return self.device().refuse("too many groups") };
        let arguments: Vec<_> = memory.iter().copied().chain(numbers.iter().copied().map(Argument::Number)).collect();
        let local = launch.variant.module().table_bytes();
        let launch =
            Launch { kernel: launch.kernel(entry), groups, threads: launch.threads, local, arguments: &arguments };
        // SAFETY: the caller's promise; the local memory is what the tables take.
        unsafe { self.launch(&launch) }
    }
}
