//! SHA3-256 (FIPS 202), KMAC256 (SP 800-185) and TurboSHAKE256 (RFC 9861) over many inputs at once.

#[cfg(target_arch = "aarch64")]
mod armv8;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512vl;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod lanes;
mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod round;
mod single;

use crate::UnknownLevel;
use crate::answers::{Known, fold, paint};
use core::{fmt, str::FromStr};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The rate of SHA3-256, KMAC256 and TurboSHAKE256: how many bytes one permutation absorbs.
pub const RATE: usize = 136;

/// The length of a digest and of a tag in bytes.
pub const DIGEST: usize = 32;

/// The instruction set that a Keccak kernel is written for, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// The `keccak` crate, one input after another.
    Portable,
    /// AVX2: four inputs side by side.
    Avx2,
    /// AVX-512: eight inputs side by side.
    Avx512,
    /// The SHA-3 instructions of ARMv8.2: two inputs side by side.
    Armv8,
}

impl Level {
    /// Every level, slowest first, whether this machine has it or not.
    pub const ALL: &[Level] = &[Level::Portable, Level::Avx2, Level::Avx512, Level::Armv8];

    /// The fastest level of this machine that computes the known answers.
    #[must_use]
    pub fn detect() -> Self {
        Self::ALL.iter().copied().rfind(|l| l.is_available() && l.is_right()).unwrap_or(Level::Portable)
    }

    /// Whether the level computes the known answers. It is tested once in a process, which takes microseconds.
    ///
    /// # Panics
    /// If this machine does not have the level.
    #[must_use]
    pub fn is_right(self) -> bool {
        static ASKED: [Known; 4] = [const { Known::unasked() }; 4];
        ASKED[self as usize].ask(|| answers(self) == ANSWERS)
    }

    /// The levels that this machine has, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|l| l.is_available())
    }

    /// Whether this machine has the level.
    #[must_use]
    pub fn is_available(self) -> bool {
        static ASKED: [Known; 4] = [const { Known::unasked() }; 4];
        ASKED[self as usize].ask(|| self.is_there())
    }

    fn is_there(self) -> bool {
        match self {
            Level::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => has!("avx2", "avx", "sse4.2", "sse4.1", "ssse3", "sse3"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Level::Avx2.is_available() && has!("avx512f", "fma", "f16c"),
            #[cfg(target_arch = "aarch64")]
            Level::Armv8 => cfg!(target_endian = "little") && std::arch::is_aarch64_feature_detected!("sha3"),
            #[allow(unreachable_patterns, reason = "the levels of other architectures")]
            _ => false,
        }
    }

    /// How many inputs the kernel takes side by side. Callers should pass a multiple of it.
    #[must_use]
    pub fn lanes(self) -> usize {
        match self {
            Level::Portable => 1,
            Level::Avx2 => 4,
            Level::Avx512 => 8,
            Level::Armv8 => 2,
        }
    }

    /// The level's name in commands and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Armv8 => "armv8",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// The level with this [`Level::name`], whether this machine has it or not.
    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.iter().copied().find(|l| l.name() == name).ok_or(UnknownLevel)
    }
}

/// The answers of every level, folded.
const ANSWERS: u64 = 0x5fb7_4ec5_104b_9632;

/// SHA3-256 and TurboSHAKE256 of inputs that fill all lanes of any level twice, and take two blocks and their padding.
fn answers(level: Level) -> u64 {
    const BYTES: [u8; 300 + 2 * MAX_LANES] = paint();
    let inputs: [&[u8]; 2 * MAX_LANES] = core::array::from_fn(|i| &BYTES[i..][..300]);
    let mut digests = [[0; DIGEST]; 2 * MAX_LANES];
    sha3_256_many(level, &inputs, &mut digests);
    let sum = fold(0, digests.as_flattened());
    turboshake256_many::<0x50>(level, &inputs, &mut digests);
    fold(sum, digests.as_flattened())
}

/// The largest [`Level::lanes`] of any level.
pub const MAX_LANES: usize = 8;

/// The state of Keccak-p\[1600\]: 25 lanes of 64 bits, lane (x, y) at x + 5y.
type State = [u64; 25];

/// The rounds of Keccak-f\[1600\], the permutation of SHA3-256 and KMAC256.
const KECCAK_F: usize = 24;

/// The rounds of TurboSHAKE256's permutation: the last ones of Keccak-f\[1600\].
const TURBO: usize = 12;

/// What follows a message: the bits that distinguish the functions, and the first bit of the padding.
///
/// At most four bytes, padded with zeros: a copy of four bytes is one instruction, and a copy of unknown length is a
/// call.
#[derive(Clone, Copy)]
struct Suffix {
    bytes: [u8; 4],
    len: usize,
}

impl Suffix {
    const fn of_one_byte(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], len: 1 }
    }
}

/// What follows a SHA3-256 message: the domain bits 01 and the first bit of the padding.
const SHA3_SUFFIX: Suffix = Suffix::of_one_byte(0x06);

/// The longest output of a sponge, in bytes.
const OUTPUT: usize = 64;

/// What follows a KMAC256 message of `LEN` bytes of output: right_encode of its bits, cSHAKE's domain bits 00, the
/// padding's first bit.
const fn kmac_suffix<const LEN: usize>() -> Suffix {
    assert!(32 <= LEN && LEN <= OUTPUT);
    let [high, low] = (8 * LEN as u16).to_be_bytes();
    Suffix { bytes: [high, low, 0x02, 0x04], len: 4 }
}

/// One input of a sponge with rate [`RATE`].
#[derive(Clone, Copy)]
struct Input<'a> {
    state: &'a State,
    message: &'a [u8],
    suffix: Suffix,
}

/// `out[i]` = SHA3-256 of `inputs[i]`. The inputs may have different lengths.
///
/// # Panics
/// If `inputs` and `out` differ in length, or this machine does not have the level.
pub fn sha3_256_many(level: Level, inputs: &[&[u8]], out: &mut [[u8; DIGEST]]) {
    assert_eq!(inputs.len(), out.len());
    sha3_256_each(level, inputs.iter().copied(), |i, digest| out[i] = *digest);
}

/// Passes on SHA3-256 of each input with its number, in the order in which they finish.
///
/// An input is taken when a lane is free for it, so that an iterator may prepare each just before it is hashed.
///
/// # Panics
/// If this machine does not have the level.
pub fn sha3_256_each<'a>(
    level: Level,
    inputs: impl IntoIterator<Item = &'a [u8]>,
    mut give: impl FnMut(usize, &[u8; DIGEST]),
) {
    let inputs = inputs.into_iter().map(|message| Input { state: &[0; 25], message, suffix: SHA3_SUFFIX });
    sponges::<KECCAK_F>(level, inputs, |i, out| give(i, out.first_chunk().expect("32 of 64 bytes")));
}

/// `out[i]` = the first 32 bytes of TurboSHAKE256 of `inputs[i]` with the domain separation byte `D`. The inputs may
/// have different lengths.
///
/// It does not compile unless 0x01 ≤ `D` ≤ 0x7F.
///
/// # Panics
/// If `inputs` and `out` differ in length, or this machine does not have the level.
pub fn turboshake256_many<const D: u8>(level: Level, inputs: &[&[u8]], out: &mut [[u8; DIGEST]]) {
    assert_eq!(inputs.len(), out.len());
    turboshake256_each::<D>(level, inputs.iter().copied(), |i, digest| out[i] = *digest);
}

/// Passes on the first 32 bytes of TurboSHAKE256 of each input with its number, in the order in which they finish. `D`
/// is the domain separation byte of RFC 9861, section 2.1.
///
/// An input is taken when a lane is free for it, so that an iterator may prepare each just before it is hashed.
/// It does not compile unless 0x01 ≤ `D` ≤ 0x7F.
///
/// # Panics
/// If this machine does not have the level.
pub fn turboshake256_each<'a, const D: u8>(
    level: Level,
    inputs: impl IntoIterator<Item = &'a [u8]>,
    mut give: impl FnMut(usize, &[u8; DIGEST]),
) {
    const { assert!(0x01 <= D && D <= 0x7f) };
    // The byte includes the first bit of the padding.
    let suffix = const { Suffix::of_one_byte(D) };
    let inputs = inputs.into_iter().map(|message| Input { state: &[0; 25], message, suffix });
    sponges::<TURBO>(level, inputs, |i, out| give(i, out.first_chunk().expect("32 of 64 bytes")));
}

/// SHA3-256 of one input.
#[must_use]
pub fn sha3_256(data: &[u8]) -> [u8; DIGEST] {
    output(Input { state: &[0; 25], message: data, suffix: SHA3_SUFFIX })
}

/// The first `LEN` bytes of one sponge's output.
fn output<const LEN: usize>(input: Input<'_>) -> [u8; LEN] {
    const { assert!(LEN <= OUTPUT) };
    let mut out = [0; OUTPUT];
    single::sponge::<KECCAK_F>(input, &mut out);
    let first = std::array::from_fn(|i| out[i]);
    out.zeroize();
    first
}

/// KMAC256 with the customization string absorbed, but no key yet. This state is the same for all keys, and public.
#[derive(Clone)]
pub struct Label(Kmac256);

impl Label {
    /// KMAC256(·, ·, ·, `customization`) of SP 800-185, section 4.3.
    ///
    /// # Panics
    /// If the customization string is longer than 122 bytes: it must fit in one block.
    #[must_use]
    pub fn new(customization: &[u8]) -> Self {
        let mut state = [0; 25];
        // bytepad(encode_string("KMAC") ‖ encode_string(S), 136)
        let mut block = Block::new();
        block.encode_string(b"KMAC");
        block.encode_string(customization);
        block.absorb_into(&mut state);
        Self(Kmac256 { state })
    }

    /// KMAC256 with this customization string and a key.
    ///
    /// # Panics
    /// If the key is longer than 125 bytes.
    #[must_use]
    pub fn key(&self, key: &[u8]) -> Kmac256 {
        let mut kmac = self.0.clone();
        // bytepad(encode_string(K), 136)
        let mut block = Block::new();
        block.encode_string(key);
        block.absorb_into(&mut kmac.state);
        kmac
    }

    /// An input for [`kmac256_each`] where each message has its own key. The message begins with the key's
    /// [`key_block`].
    #[must_use]
    pub fn unkeyed(&self) -> &Kmac256 {
        &self.0
    }
}

/// Writes the block in which KMAC256 absorbs a key of 32 bytes: bytepad(encode_string(K), 136). It is as secret as the
/// key.
#[inline]
pub fn key_block(key: &[u8; 32], block: &mut [u8; RATE]) {
    // left_encode(136) ‖ left_encode(256)
    block[..5].copy_from_slice(&[1, RATE as u8, 2, 1, 0]);
    block[5..37].copy_from_slice(key);
    block[37..].fill(0);
}

/// KMAC256 with its key and customization string absorbed, ready for any number of messages. Wiped on drop.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Kmac256 {
    state: State,
}

impl Kmac256 {
    /// KMAC256(`key`, ·, ·, `customization`) of SP 800-185, section 4.3.
    ///
    /// # Panics
    /// If the key is longer than 125 or the customization string longer than 122 bytes: each must fit in one block.
    #[must_use]
    pub fn new(key: &[u8], customization: &[u8]) -> Self {
        Label::new(customization).key(key)
    }

    /// The 32-byte tag of one message (L = 256 bits).
    #[must_use]
    pub fn tag(&self, message: &[u8]) -> [u8; DIGEST] {
        output(Input { state: &self.state, message, suffix: const { kmac_suffix::<DIGEST>() } })
    }

    /// The 16-byte tag of one message (L = 128 bits).
    #[must_use]
    pub fn tag_128(&self, message: &[u8]) -> [u8; 16] {
        // right_encode(128), cSHAKE's domain bits 00, the padding's first bit.
        output(Input { state: &self.state, message, suffix: Suffix { bytes: [128, 1, 0x04, 0], len: 3 } })
    }

    /// Fills `out`, at most [`RATE`] bytes, with the output for one short message; L = 8 × its length enters the
    /// computation.
    ///
    /// # Panics
    /// If `out` is longer than [`RATE`], or the message longer than 130 bytes.
    pub fn derive(&self, message: &[u8], out: &mut [u8]) {
        assert!(out.len() <= RATE);
        let bits = (out.len() * 8) as u16;
        let mut state = self.state;
        let mut block = Block { bytes: [0; RATE], len: 0 };
        block.push(message);
        // right_encode(L)
        match bits.to_be_bytes() {
            [0, low] => block.push(&[low, 1]),
            both => {
                block.push(&both);
                block.push(&[2]);
            }
        }
        block.push(&[0x04]);
        block.bytes[RATE - 1] ^= 0x80;
        block.absorb_into(&mut state);
        for (out, lane) in out.chunks_mut(8).zip(&state) {
            out.copy_from_slice(&lane.to_le_bytes()[..out.len()]);
        }
        state.zeroize();
    }
}

impl fmt::Debug for Kmac256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KMAC256 key")
    }
}

/// `out[i]` = the 32-byte KMAC256 tag (L = 256 bits) of message `inputs[i].1` under `inputs[i].0`.
///
/// # Panics
/// If `inputs` and `out` differ in length, or this machine does not have the level.
pub fn kmac256_many(level: Level, inputs: &[(&Kmac256, &[u8])], out: &mut [[u8; DIGEST]]) {
    assert_eq!(inputs.len(), out.len());
    kmac256_each(level, inputs.iter().copied(), |i, tag| out[i] = *tag);
}

/// Passes on the KMAC256 output of `LEN` bytes (32 to 64, L = 8 × `LEN`) for each message under its key, with its
/// number, in the order in which they finish. An input is taken when a lane is free for it.
///
/// # Panics
/// If this machine does not have the level.
pub fn kmac256_each<'a, const LEN: usize>(
    level: Level,
    inputs: impl IntoIterator<Item = (&'a Kmac256, &'a [u8])>,
    mut give: impl FnMut(usize, &[u8; LEN]),
) {
    let suffix = const { kmac_suffix::<LEN>() };
    let inputs = inputs.into_iter().map(|(key, message)| Input { state: &key.state, message, suffix });
    sponges::<KECCAK_F>(level, inputs, |i, out| give(i, out.first_chunk().expect("kmac_suffix() checked the length")));
}

/// Runs a sponge over Keccak-p\[1600, ROUNDS\] for each input, and passes on the first 64 bytes of its output with the
/// input's number.
fn sponges<'a, const ROUNDS: usize>(
    level: Level,
    inputs: impl Iterator<Item = Input<'a>>,
    mut give: impl FnMut(usize, &[u8; OUTPUT]),
) {
    assert!(level.is_available(), "this machine does not have the Keccak level {level}");
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Avx2 => lanes::sponges::<ROUNDS, _>(inputs, give, |s, data, blocks| unsafe {
            avx2::absorb::<ROUNDS>(s, data, blocks)
        }),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Avx512 => lanes::sponges::<ROUNDS, _>(inputs, give, |s, data, blocks| unsafe {
            avx512::absorb::<ROUNDS>(s, data, blocks)
        }),
        #[cfg(target_arch = "aarch64")]
        // SAFETY: is_available() found the instructions.
        Level::Armv8 => lanes::sponges::<ROUNDS, _>(inputs, give, |s, data, blocks| unsafe {
            armv8::absorb::<ROUNDS>(s, data, blocks)
        }),
        _ => {
            let mut out = [0; OUTPUT];
            for (i, input) in inputs.enumerate() {
                single::sponge_by(portable::absorb::<ROUNDS>, input, &mut out);
                give(i, &out);
            }
            out.zeroize();
        }
    }
}

/// A block of input under construction. Wiped on drop, because it may hold a key.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Block {
    bytes: [u8; RATE],
    len: usize,
}

impl Block {
    /// The start of bytepad(·, 136) of SP 800-185, section 2.3.3: left_encode(136).
    fn new() -> Self {
        let mut block = Self { bytes: [0; RATE], len: 0 };
        block.push(&[1, RATE as u8]);
        block
    }

    /// encode_string of SP 800-185, section 2.3.2, for strings of fewer than 2^13 bytes.
    fn encode_string(&mut self, string: &[u8]) {
        let bits = (string.len() * 8) as u16;
        match bits.to_be_bytes() {
            [0, low] => self.push(&[1, low]),
            both => {
                self.push(&[2]);
                self.push(&both);
            }
        }
        self.push(string);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn absorb_into(&self, state: &mut State) {
        single::absorb::<KECCAK_F>(state, &self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_answers_as_the_portable_one_does() {
        let portable = answers(Level::Portable);
        assert_eq!(portable, ANSWERS, "{portable:#018x}");
        assert!(Level::available().all(Level::is_right));
    }
}
