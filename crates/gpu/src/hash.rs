//! Launches of SHA3-256, TurboSHAKE256 and KMAC256: an input a thread; for papers also digests of keys.

use crate::device::{ALIGN, Buffer, Stream};
use crate::driver::{Argument, Launch};
use crate::error::Result;
use crate::kernel::{Kernel, Module};
use std::ops::Range;
use zeroize::Zeroizing;

/// The length of a digest and of a tag in bytes.
const DIGEST: usize = 32;
/// The rate of all three in bytes.
const RATE: usize = 136;
/// The most bytes of a tag's message before its digests.
const PREFIX: usize = 48;

/// A slice of the data, hashed on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where it begins in the buffer: a multiple of 16.
    pub at: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// Slices on a device.
#[derive(Debug)]
pub struct Slices {
    buffer: Buffer,
    count: u32,
    /// Where the last ends.
    end: usize,
}

/// KMAC256's customization string on a device, absorbed.
#[derive(Debug)]
pub struct Label(Buffer);

/// The sponge after its first block, bytepad(encode_string("KMAC") ‖ encode_string(S), 136): SP 800-185, section 3.3.
fn absorb_label(customization: &str) -> [u64; 25] {
    let mut block = vec![1, RATE as u8, 1, 32];
    block.extend(b"KMAC");
    match ((customization.len() * 8) as u16).to_be_bytes() {
        [0, low] => block.extend([1, low]),
        [high, low] => block.extend([2, high, low]),
    }
    block.extend(customization.as_bytes());
    block.resize(RATE, 0);
    let mut state = [0; 25];
    for (lane, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
        *lane = u64::from_le_bytes(*bytes);
    }
    keccak::Keccak::new().with_f1600(|f1600| f1600(&mut state));
    state
}

/// Keys on a device as they are, all of one length.
#[derive(Debug)]
pub struct RawKeys {
    buffer: Buffer,
    len: u32,
    count: u32,
}

/// A tag to compute: KMAC256(key, prefix ‖ digests, 256, label).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagInput<'a> {
    /// Which of the keys.
    pub key: u32,
    /// What comes before the digests: at most 48 bytes.
    pub prefix: &'a [u8],
    /// Which digests, counted from the beginning of their buffer.
    pub digests: Range<u32>,
}

/// Tags to compute, on a device.
#[derive(Debug)]
pub struct Tags {
    buffer: Buffer,
    count: u32,
    /// One more than the largest key.
    keys: u32,
    /// Where the last of the digests ends.
    digests: u32,
}

/// By what P5 finds a key.
#[cfg(feature = "papers")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyDigest {
    /// KMAC256(key, "", 256, label): 32 bytes a key.
    Kmac256,
    /// MD5 as the paper has it: 16 bytes a key. It is broken: for its experiments only.
    Md5,
}

#[cfg(feature = "papers")]
impl KeyDigest {
    /// Its length in bytes.
    #[must_use]
    pub fn digest_len(self) -> usize {
        match self {
            KeyDigest::Kmac256 => DIGEST,
            KeyDigest::Md5 => 16,
        }
    }
}

impl Stream {
    /// Brings slices to the device.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a slice does not begin at a multiple of 16, is longer than 4 GiB or
    /// ends beyond 32 GiB, or if there are more than 2^26. Otherwise as for [`Stream::buffer_of`].
    pub fn slices(&mut self, slices: &[Slice]) -> Result<Slices> {
        self.slices_again(slices, None)
    }

    /// The same in the memory of others, where there is room.
    pub(crate) fn slices_again(&mut self, slices: &[Slice], old: Option<Slices>) -> Result<Slices> {
        let mut end = 0;
        let mut words = Vec::with_capacity(slices.len() * 2);
        for slice in slices {
            let slice_end = slice.at.checked_add(slice.len).filter(|end| end.div_ceil(ALIGN) < 1 << 31);
            let (true, Some(slice_end)) = (slice.at.is_multiple_of(ALIGN), slice_end) else {
                return self.device().refuse("slices start at multiples of 16 and end within 32 GiB");
            };
            if slice.len > u32::MAX as usize {
                return self.device().refuse("a slice is longer than 4 GiB");
            }
            words.extend([(slice.at / ALIGN) as u32, slice.len as u32]);
            end = end.max(slice_end);
        }
        let count = self.count(slices.len())?;
        Ok(Slices { buffer: self.buffer_of_words(&words, old.map(|old| old.buffer))?, count, end })
    }

    /// Brings a customization string of at most 122 bytes to the device.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if it is longer. Otherwise as for [`Stream::buffer_of`].
    pub fn label(&mut self, customization: &str) -> Result<Label> {
        if customization.len() > 122 {
            return self.device().refuse("a customization string has at most 122 bytes");
        }
        let state = absorb_label(customization);
        Ok(Label(self.buffer_of(&state.iter().flat_map(|lane| lane.to_le_bytes()).collect::<Vec<_>>())?))
    }

    /// Brings keys to the device, all of one length of 1 to 125 bytes.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the keys have other or different lengths, or there are none or more
    /// than 2^26. Otherwise as for [`Stream::buffer_of`].
    pub fn raw_keys(&mut self, keys: &[&[u8]]) -> Result<RawKeys> {
        self.raw_keys_again(keys, None)
    }

    /// The same in the memory of others, where there is room.
    ///
    /// # Errors
    /// As for [`Stream::raw_keys`]. On an error, `old` is freed.
    pub fn raw_keys_again(&mut self, keys: &[&[u8]], old: Option<RawKeys>) -> Result<RawKeys> {
        let len = keys.first().map_or(0, |key| key.len());
        if !(1..=125).contains(&len) || keys.iter().any(|key| key.len() != len) {
            return self.device().refuse("keys are of one length of 1 to 125 bytes");
        }
        let bytes = Zeroizing::new(keys.concat());
        let count = self.count(keys.len())?;
        Ok(RawKeys { len: len as u32, count, buffer: self.buffer_again(&bytes, old.map(|old| old.buffer))? })
    }

    /// Brings what tags are made of to the device.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a prefix is longer than 48 bytes, a tag has more than 2^24 digests, or
    /// there are more than 2^26 tags. Otherwise as for [`Stream::buffer_of`].
    pub fn tags(&mut self, tags: &[TagInput<'_>]) -> Result<Tags> {
        let (mut keys, mut digests) = (0, 0);
        let mut bytes = Vec::with_capacity(tags.len() * (16 + PREFIX));
        for tag in tags {
            let long = tag.prefix.len() > PREFIX || tag.digests.len() > 1 << 24;
            if long || tag.digests.start > tag.digests.end || tag.key == u32::MAX {
                return self.device().refuse("a tag has at most 48 bytes before its digests, and 2^24 of those");
            }
            let words = [tag.key, tag.prefix.len() as u32, tag.digests.start, tag.digests.len() as u32];
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(tag.prefix);
            bytes.resize(bytes.len() + PREFIX - tag.prefix.len(), 0);
            keys = keys.max(tag.key + 1);
            digests = digests.max(tag.digests.end);
        }
        Ok(Tags { count: self.count(tags.len())?, buffer: self.buffer_of(&bytes)?, keys, digests })
    }

    /// SHA3-256 of each slice, 32 bytes each into `digests`, `threads` a group.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a slice ends behind the data, the digests do not fit into their
    /// buffer, an argument is on another device, or a group cannot have that many threads.
    /// [`Reason::Build`](crate::Reason::Build) or [`Reason::SelfTest`](crate::Reason::SelfTest) if the kernel has failed its
    /// self-test. Otherwise a failure of the driver.
    pub fn sha3_slices(&mut self, threads: u32, slices: &Slices, data: &Buffer, digests: &mut Buffer) -> Result<()> {
        self.digest_slices("sha3_slices", threads, slices, data, digests)
    }

    /// The same with TurboSHAKE256 in place of SHA3-256: the first 32 bytes for the domain separation byte 0x50.
    ///
    /// # Errors
    /// Those of [`Stream::sha3_slices`].
    pub fn turboshake_slices(
        &mut self,
        threads: u32,
        slices: &Slices,
        data: &Buffer,
        digests: &mut Buffer,
    ) -> Result<()> {
        self.digest_slices("turboshake_slices", threads, slices, data, digests)
    }

    /// By one of the two kernels that make digests of slices.
    fn digest_slices(
        &mut self,
        entry: &'static str,
        threads: u32,
        slices: &Slices,
        data: &Buffer,
        digests: &mut Buffer,
    ) -> Result<()> {
        self.check(&slices.buffer, 0..0)?;
        self.check(data, 0..slices.end)?;
        self.check(digests, 0..slices.count as usize * DIGEST)?;
        let memory = [data.argument(), slices.buffer.argument(), digests.argument()];
        // SAFETY: either kernel reads the slices, which end within data, and writes a digest for each, for which there is room.
        unsafe { self.hash(in_hash(entry), threads, slices.count, &memory, &[]) }
    }

    /// The tags, 32 bytes each into `out`. The keys have 32 bytes.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the keys have other lengths, a tag names a key or digest that is not
    /// there, or the tags do not fit into their buffer. Otherwise as for [`Stream::sha3_slices`].
    pub fn kmac_tags(
        &mut self,
        threads: u32,
        label: &Label,
        keys: &RawKeys,
        tags: &Tags,
        digests: &Buffer,
        out: &mut Buffer,
    ) -> Result<()> {
        self.check(&label.0, 0..0)?;
        self.check(&keys.buffer, 0..0)?;
        self.check(&tags.buffer, 0..0)?;
        self.check(digests, 0..tags.digests as usize * DIGEST)?;
        self.check(out, 0..tags.count as usize * DIGEST)?;
        if keys.len != 32 || tags.keys > keys.count {
            return self.device().refuse("the keys of tags have 32 bytes and are all there");
        }
        let buffers = [&label.0, &keys.buffer, digests, &tags.buffer, &*out];
        let memory = buffers.map(Buffer::argument);
        // SAFETY: the kernel reads 25 lanes of the label, the tags, the keys and digests that they name, which are there,
        // and writes a tag for each, for which there is room.
        unsafe { self.hash(in_hash("kmac_tags"), threads, tags.count, &memory, &[]) }
    }

    /// The digest of each key, one behind the other into `out`. MD5 takes keys of at most 55 bytes; it has no label.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the digests do not fit into their buffer, or the keys are too long for
    /// MD5. Otherwise as for [`Stream::sha3_slices`].
    #[cfg(feature = "papers")]
    pub fn key_digests(
        &mut self,
        threads: u32,
        digest: KeyDigest,
        label: &Label,
        keys: &RawKeys,
        out: &mut Buffer,
    ) -> Result<()> {
        self.check(&keys.buffer, 0..0)?;
        self.check(out, 0..keys.count as usize * digest.digest_len())?;
        match digest {
            KeyDigest::Kmac256 => {
                self.check(&label.0, 0..0)?;
                let memory = [label.0.argument(), keys.buffer.argument(), out.argument()];
                // SAFETY: the kernel reads 25 lanes of the label and all keys, and writes 32 bytes for each, for which
                // there is room.
                unsafe { self.hash(in_hash("kmac_key_digests"), threads, keys.count, &memory, &[keys.len]) }
            }
            KeyDigest::Md5 if keys.len > 55 => self.device().refuse("MD5 of keys takes at most 55 bytes"),
            KeyDigest::Md5 => {
                let memory = [keys.buffer.argument(), out.argument()];
                // SAFETY: the kernel reads all keys, and writes 16 bytes for each, for which there is room.
                unsafe {
                    self.hash(
                        Kernel { module: Module::Md5, entry: "md5_key_digests" },
                        threads,
                        keys.count,
                        &memory,
                        &[keys.len],
                    )
                }
            }
        }
    }

    fn count(&self, len: usize) -> Result<u32> {
        if len > 1 << 26 { self.device().refuse("more than 2^26 inputs") } else { Ok(len as u32) }
    }

    /// # Safety
    /// As for [`Stream::launch`]; `count` and then `more` are the numbers.
    unsafe fn hash(
        &mut self,
        kernel: Kernel,
        threads: u32,
        count: u32,
        memory: &[Argument],
        more: &[u32],
    ) -> Result<()> {
        let mut arguments = memory.to_vec();
        arguments.extend([count].iter().chain(more).map(|number| Argument::Number(*number)));
        let groups = count.div_ceil(threads.max(1));
        // SAFETY: the caller's promise.
        unsafe { self.launch(&Launch { kernel, groups, threads, local: 0, arguments: &arguments }) }
    }
}

fn in_hash(entry: &'static str) -> Kernel {
    Kernel { module: Module::Hash, entry }
}
