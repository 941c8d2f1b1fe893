//! Launches only for the papers' experiments: digests of keys, one key in each thread.

use super::DIGEST;
use crate::device::{Buffer, Stream};
use crate::error::Result;
use crate::kernel::{Kernel, Module};
use zeroize::Zeroizing;

/// The rate of KMAC256 in bytes.
const RATE: usize = 136;
const KMAC: Kernel = Kernel { module: Module::Kmac, entry: "kmac_key_digests" };
const MD5: Kernel = Kernel { module: Module::Md5, entry: "md5_key_digests" };

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

/// Keys on a device, not expanded, all of one length.
#[derive(Debug)]
pub struct RawKeys {
    buffer: Buffer,
    len: u32,
    count: u32,
}

/// The digest by which P5 finds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyDigest {
    /// KMAC256(key, "", 256, label): 32 bytes for each key.
    Kmac256,
    /// MD5, as in the paper: 16 bytes for each key. It is broken, and only for the paper's experiments.
    Md5,
}

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
    /// Copies a customization string of at most 122 bytes to the device.
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

    /// Copies keys to the device, all of one length of 1 to 125 bytes.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the keys have other or different lengths, or there are none or
    /// more than 2^26. Otherwise as for [`Stream::buffer_of`].
    pub fn raw_keys(&mut self, keys: &[&[u8]]) -> Result<RawKeys> {
        self.raw_keys_again(keys, None)
    }

    /// Copies keys to the device, as [`Stream::raw_keys`] does, into the memory of `old` if they fit.
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

    /// The digest of each key, one after another into `out`. MD5 takes keys of at most 55 bytes; it has no label.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the digests do not fit into their buffer, or the keys are too
    /// long for MD5. Otherwise as for [`Stream::sha3_slices`].
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
                unsafe { self.hash(KMAC, threads, keys.count, &memory, &[keys.len]) }
            }
            KeyDigest::Md5 if keys.len > 55 => self.device().refuse("MD5 of keys takes at most 55 bytes"),
            KeyDigest::Md5 => {
                let memory = [keys.buffer.argument(), out.argument()];
                // SAFETY: the kernel reads all keys, and writes 16 bytes for each, for which there is room.
                unsafe { self.hash(MD5, threads, keys.count, &memory, &[keys.len]) }
            }
        }
    }
}
