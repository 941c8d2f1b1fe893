//! Launches of AES-CTR: spans of data, each with its own key and counter. The papers' launches are in `papers.rs`.

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

/// The largest number of blocks that one group of the kernels with tables takes.
pub const MAX_SPAN: u32 = 16384;

/// The kernel for spans. Among the kernels in bit planes, it is the one for groups whose threads all have the same key.
const SPANS: &str = "aes_ctr_spans";
/// The kernel in bit planes that computes the common part of a tile's first rounds once.
const TILES: &str = "aes_ctr_tiles";
/// The counters of a tile differ only in their last two bytes.
const TILE: u64 = 1 << 16;
/// The blocks that 32 threads take from a tile begin at counters that are multiples of this.
const WARP_BLOCKS: u64 = 1024;
/// The kernel in bit planes whose threads may each have their own key.
const KEYS: &str = "aes_ctr_keys";

/// How the cipher is computed. All variants give the same bytes. `docs/security.md` explains the choice of the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Bit planes, without tables: no address and no branch depends on data or keys.
    #[default]
    Bitsliced,
    /// Lookups in T0, with one copy for each memory bank. Its words are rotated by byte permutation.
    #[cfg(feature = "papers")]
    Table1,
    /// Lookups in four tables, with eight copies of each.
    #[cfg(feature = "papers")]
    Table4,
    /// Lookups in four tables, with one copy for each memory bank: 128 KiB of local memory.
    #[cfg(feature = "papers")]
    Table4Wide,
}

impl Variant {
    /// All variants.
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
    #[must_use]
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

    /// The module of its kernel for spans of one key. If it has tables, this is the module of all its kernels.
    #[must_use]
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

/// How the work of an AES kernel is divided among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AesLaunch {
    /// The kernels to run.
    pub variant: Variant,
    /// Threads in each group (CUDA: block).
    pub threads: u32,
    /// Granularity: the blocks of 16 bytes that each thread takes. The bitsliced kernels always take 32.
    pub granularity: u32,
}

impl Default for AesLaunch {
    fn default() -> Self {
        Self::new(Variant::default())
    }
}

impl AesLaunch {
    /// A suitable launch of this variant for large data.
    #[must_use]
    pub fn new(variant: Variant) -> Self {
        match variant {
            Variant::Bitsliced => Self { variant, threads: 128, granularity: 32 },
            #[cfg(feature = "papers")]
            Variant::Table1 | Variant::Table4 => Self { variant, threads: 256, granularity: 16 },
            #[cfg(feature = "papers")]
            Variant::Table4Wide => Self { variant, threads: 1024, granularity: 16 },
        }
    }

    /// The kernel with the name `entry` among those of the variant.
    #[must_use]
    pub fn kernel(&self, entry: &'static str) -> Kernel {
        let module = match entry {
            TILES if self.bitsliced() => Module::AesBitsliceTiles,
            KEYS if self.bitsliced() => Module::AesBitsliceKeys,
            #[cfg(feature = "papers")]
            _ if self.bitsliced() && entry != SPANS => Module::AesBitslicePapers,
            _ => self.variant.module(),
        };
        Kernel { module, entry }
    }

    fn bitsliced(&self) -> bool {
        self.variant == Variant::Bitsliced
    }

    /// The threads of each span, if the kernel for tiles can take all spans, and at least half of its threads have
    /// work.
    fn in_tiles(&self, spans: &Spans) -> Option<u64> {
        let each = (spans.in_tiles?.div_ceil(WARP_BLOCKS) * 32).next_multiple_of(self.threads.into());
        (self.bitsliced() && 2 * spans.total >= 32 * each * u64::from(spans.count)).then_some(each)
    }

    /// The kernel for spans, and the threads that it takes for each span if it is bitsliced.
    pub(crate) fn entry_for(&self, spans: &Spans) -> (&'static str, u64) {
        if let Some(each) = self.in_tiles(spans) {
            return (TILES, each);
        }
        let stride_log = stride_log(spans.blocks);
        let each = spans.blocks.div_ceil(32 << stride_log).max(1) << stride_log;
        let one_key = spans.one_key || each.is_multiple_of(self.threads.into());
        (if !self.bitsliced() || one_key { SPANS } else { KEYS }, each)
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

/// The binary logarithm of the distance, in blocks, between the 32 blocks of a thread. It is as large as the data
/// allow, and 5 at most: then 32 neighbouring threads read and write neighbouring blocks.
fn stride_log(blocks: u64) -> u32 {
    blocks.div_ceil(32).next_power_of_two().ilog2().min(5)
}

/// What round keys are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Encryption. AES-CTR uses it both to encrypt and to decrypt.
    Encrypt,
    /// Decryption by AES-ECB.
    #[cfg(feature = "papers")]
    Decrypt,
}

/// Keys on a device, expanded. The host expands them in time that does not depend on their values.
#[derive(Debug)]
pub struct RoundKeys {
    buffer: Buffer,
    direction: Direction,
    rounds: u32,
    count: u32,
}

/// A part of the data with its own key and counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins in the buffer, in bytes: a multiple of 16.
    pub at: usize,
    /// Its length in bytes.
    pub len: usize,
    /// The index of its key.
    pub key: u32,
    /// The counter block of its first block, big-endian.
    pub counter: [u8; 16],
}

/// Spans on a device. They do not overlap.
#[derive(Debug)]
pub struct Spans {
    buffer: Buffer,
    count: u32,
    /// The length of the longest, in blocks.
    blocks: u64,
    /// Where the last one ends, in bytes.
    end: usize,
    /// One more than the largest index of a key.
    keys: u32,
    /// Whether all have the same key.
    one_key: bool,
    /// The length of all together, in blocks.
    total: u64,
    /// The largest number of blocks from the last multiple of [`WARP_BLOCKS`] before a span's first counter to the end
    /// of the span. `None` if a span reaches beyond the tile that it begins in.
    in_tiles: Option<u64>,
}

impl Stream {
    /// Expands keys and copies them to the device. There is at least one, and all have the same length of 16, 24 or 32
    /// bytes.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the keys have other or different lengths, or there are none or
    /// more than 2^24. Otherwise as for [`Stream::buffer_of`].
    pub fn round_keys(&mut self, keys: &[&[u8]], direction: Direction) -> Result<RoundKeys> {
        self.round_keys_again(keys, direction, None)
    }

    /// Expands keys and copies them to the device, as [`Stream::round_keys`] does. If the memory of `old` is large
    /// enough, it is used again, without an allocation.
    ///
    /// # Errors
    /// As for [`Stream::round_keys`], and [`Reason::Refused`](crate::Reason::Refused) if `old` is on another device. On
    /// an error, `old` is freed.
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

    fn key_len(&self, keys: &[&[u8]]) -> Result<usize> {
        let len = keys.first().map_or(0, |key| key.len());
        if ![16, 24, 32].contains(&len) || keys.iter().any(|key| key.len() != len) || keys.len() > 1 << 24 {
            return self.device().refuse("AES keys have 16, 24 or 32 bytes, all the same, and are at most 2^24");
        }
        Ok(len)
    }

    /// Copies spans to the device. They are in ascending order and do not overlap.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a span does not begin at a multiple of 16, begins before the end
    /// of the one before it (a span owns its whole last block), is longer than 4 GiB or ends beyond 32 GiB, or if there
    /// are more than 2^24. Otherwise as for [`Stream::buffer_of`].
    pub fn spans(&mut self, spans: &[Span]) -> Result<Spans> {
        self.spans_again(spans, None)
    }

    /// Copies spans to the device, as [`Stream::spans`] does, into the memory of `old` if that is large enough.
    ///
    /// # Errors
    /// As for [`Stream::spans`], and [`Reason::Refused`](crate::Reason::Refused) if `old` is on another device. On an
    /// error, `old` is freed.
    pub fn spans_again(&mut self, spans: &[Span], old: Option<Spans>) -> Result<Spans> {
        let (mut blocks, mut end, mut keys, mut total, mut in_tiles) = (0, 0, 0, 0, Some(0));
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
            // A span owns its whole last block, so no two spans share a block.
            end = span_end.next_multiple_of(ALIGN);
            let len = span.len.div_ceil(ALIGN) as u64;
            blocks = blocks.max(len);
            total += len;
            let low = u64::from(u16::from_be_bytes([span.counter[14], span.counter[15]]));
            in_tiles = in_tiles.filter(|_| low + len <= TILE).map(|most: u64| most.max(low % WARP_BLOCKS + len));
            keys = keys.max(span.key + 1);
        }
        if spans.len() > 1 << 24 {
            return self.device().refuse("more than 2^24 spans");
        }
        let one_key = spans.iter().all(|span| span.key == spans[0].key);
        let buffer = self.buffer_of_words(&words, old.map(|old| old.buffer))?;
        Ok(Spans { buffer, count: spans.len() as u32, blocks, end, keys, one_key, total, in_tiles })
    }

    /// Starts AES-CTR of `spans` of `data`, in place, each under its key of `keys` and its counter.
    ///
    /// The bitsliced kernels take 32 blocks in each thread. The fastest is for long spans in which only the last two
    /// bytes of the counter change. The second is for groups whose threads all have the same key: all spans have the
    /// same key, or each takes whole groups. The third takes any spans. A kernel with tables takes one span in each
    /// group, which is P2's GCS if the spans are slices.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if
    /// - the keys, spans or data are on another device,
    /// - a span ends after the data or names a missing key, or the keys are for decryption,
    /// - the device or the kernel does not support the launch (granularity, threads or local memory),
    /// - a span is longer than [`MAX_SPAN`] blocks, with tables,
    /// - the longest span times the number of spans takes 2^31 threads or more, without tables.
    ///
    /// [`Reason::Build`](crate::Reason::Build) or [`Reason::SelfTest`](crate::Reason::SelfTest) if the kernel has
    /// failed its self-test. Otherwise a failure of the driver.
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
        let (entry, each) = launch.entry_for(spans);
        let groups = if launch.bitsliced() {
            let threads = each.checked_mul(spans.count.into()).filter(|threads| *threads < 1 << 31);
            let Some(threads) = threads else {
                return self.device().refuse("too many threads: the longest span times the number of spans");
            };
            threads.div_ceil(launch.threads.into())
        } else if spans.blocks > MAX_SPAN.into() {
            return self.device().refuse(format!("a span of {} blocks: {MAX_SPAN} at most with tables", spans.blocks));
        } else {
            spans.count.into()
        };
        let stride_log = stride_log(spans.blocks);
        let numbers = match entry {
            TILES => vec![keys.rounds, each as u32],
            _ => vec![spans.count, keys.rounds, stride_log, (each >> stride_log) as u32],
        };
        let memory = [
            data.argument(),
            keys.buffer.argument(),
            self.table(launch, &keys.buffer, false)?,
            spans.buffer.argument(),
        ];
        // SAFETY: the kernel writes the spans, which end within data, and reads their descriptions, their keys and T0.
        // A kernel that needs groups whose threads have the same key, or spans within tiles, is only chosen for such
        // spans.
        unsafe { self.aes(launch, entry, groups, &memory, &numbers) }
    }

    /// The argument for the tables of a launch: T0 or its inverse. Kernels without tables do not read it, and get the
    /// keys again.
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
            return self.device().refuse("there is no such round key, or it is for the other direction");
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
        // SAFETY: the arguments are those of the entry, and the caller has made sure that all it reaches lies in the
        // memory. The local memory is as large as the tables.
        unsafe { self.launch(&launch) }
    }
}
