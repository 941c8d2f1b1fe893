//! AES-128, AES-192 and AES-256 (FIPS 197) in counter mode (SP 800-38A, section 6.5). With the feature `papers` also in
//! ECB mode (section 6.1).

/// Does `$step` for the rounds 1, 2 … `$rounds` − 1, all written out. The compiler might not unroll a loop, and would
/// then keep the round keys on the stack to index them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! inner_rounds {
    ($rounds:ident, $round:ident => $step:expr) => {
        inner_rounds!(@ $round => $step; 1 2 3 4 5 6 7 8 9);
        if $rounds > 10 {
            inner_rounds!(@ $round => $step; 10 11);
        }
        if $rounds > 12 {
            inner_rounds!(@ $round => $step; 12 13);
        }
    };
    (@ $round:ident => $step:expr; $number:literal $($rest:literal)*) => {
        let $round = $number;
        $step;
        inner_rounds!(@ $round => $step; $($rest)*);
    };
    (@ $round:ident => $step:expr;) => {};
}

#[cfg(target_arch = "x86_64")]
mod aesni;
#[cfg(target_arch = "aarch64")]
mod armv8;
#[cfg(feature = "papers")]
mod ecb;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;

#[cfg(feature = "papers")]
pub use ecb::{DecryptKey, ecb_decrypt, ecb_encrypt};

use crate::UnknownLevel;
use crate::answers::{Known, fold, paint};
use core::{fmt, str::FromStr};

/// The length of an AES block in bytes.
pub const BLOCK: usize = 16;

/// The instruction set that an AES kernel is written for, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// The `aes` crate: bitsliced, or the processor's AES instructions if it has them.
    Portable,
    /// AES-NI: eight blocks at once.
    AesNi,
    /// VAES on the 256-bit registers of AVX2: sixteen blocks at once.
    Vaes256,
    /// VAES on the 512-bit registers of AVX-512: thirty-two blocks at once.
    Vaes512,
    /// The AES instructions of ARMv8: eight blocks at once.
    Armv8,
}

impl Level {
    /// Every level, slowest first, whether this machine has it or not.
    pub const ALL: &[Level] = &[Level::Portable, Level::AesNi, Level::Vaes256, Level::Vaes512, Level::Armv8];

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
        static ASKED: [Known; 5] = [const { Known::unasked() }; 5];
        ASKED[self as usize].ask(|| answers(|key, counter, data| ctr_xor(self, key, counter, data)) == ANSWERS)
    }

    /// The levels that this machine has, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|l| l.is_available())
    }

    /// Whether this machine has the level.
    #[must_use]
    pub fn is_available(self) -> bool {
        static ASKED: [Known; 5] = [const { Known::unasked() }; 5];
        ASKED[self as usize].ask(|| self.is_there())
    }

    fn is_there(self) -> bool {
        match self {
            Level::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Level::AesNi => has!("aes", "sse2", "sse3", "ssse3"),
            #[cfg(target_arch = "x86_64")]
            Level::Vaes256 => Level::AesNi.is_available() && has!("vaes", "avx2", "avx", "sse4.1", "sse4.2"),
            #[cfg(target_arch = "x86_64")]
            Level::Vaes512 => Level::Vaes256.is_available() && has!("avx512f", "avx512bw", "fma", "f16c"),
            #[cfg(target_arch = "aarch64")]
            Level::Armv8 => cfg!(target_endian = "little") && std::arch::is_aarch64_feature_detected!("aes"),
            #[allow(unreachable_patterns, reason = "the levels of other architectures")]
            _ => false,
        }
    }

    /// The level's name in commands and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::AesNi => "aes-ni",
            Level::Vaes256 => "vaes-256",
            Level::Vaes512 => "vaes-512",
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

/// An AES key with its key schedule (FIPS 197, section 5.2), wiped on drop.
#[derive(Clone)]
pub struct Key {
    /// Round keys 0 … `rounds`, with the bytes in the order of the standard. The rest is zero.
    round_keys: [[u8; BLOCK]; 15],
    rounds: usize,
}

impl Key {
    /// Expands a key of 16, 24 or 32 bytes, in time that does not depend on its value.
    ///
    /// # Panics
    /// If the key has another length.
    #[inline]
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        let rounds = match key.len() {
            16 | 24 | 32 => key.len() / 4 + 6,
            n => panic!("an AES key has 16, 24 or 32 bytes, not {n}"),
        };
        let round_keys = match Level::AesNi.is_available() && expands_rightly() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: is_available() found the instructions.
            true => unsafe { aesni::expand(key, rounds) },
            _ => portable::expand(key, rounds, portable::sub_word),
        };
        Self { round_keys, rounds }
    }

    /// Whether the schedule is that of the key, computed again without AES instructions.
    #[must_use]
    pub fn is_right(&self) -> bool {
        // This is a `Key`, so that it is wiped. Both schedules are secret, but whether they are equal is not. All bytes are
        // compared, so that the time does not say where the first difference is.
        let again =
            Self { round_keys: portable::expand(self.raw(), self.rounds, portable::sub_word), rounds: self.rounds };
        let both = again.round_keys.as_flattened().iter().zip(self.round_keys.as_flattened());
        both.fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }

    /// The key itself: the schedule begins with it.
    fn raw(&self) -> &[u8] {
        &self.round_keys.as_flattened()[..(self.rounds - 6) * 4]
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // A plain fill takes a few cycles. Writing byte by byte would take hundreds, as long as sealing a short
        // message.
        self.round_keys.as_flattened_mut().fill(0);
        zeroize::optimization_barrier(&self.round_keys);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AES-{} key", (self.rounds - 6) * 32)
    }
}

/// The counter block that is `blocks` after `counter`: a big-endian addition modulo 2^128.
#[must_use]
pub fn counter_after(counter: &[u8; BLOCK], blocks: u64) -> [u8; BLOCK] {
    u128::from_be_bytes(*counter).wrapping_add(u128::from(blocks)).to_be_bytes()
}

/// Encrypts or decrypts `data` in place: AES-CTR, with `counter` as the counter block of the first 16 bytes.
///
/// The counter is the whole block of 16 bytes, big-endian, modulo 2^128. `data` can have any length and alignment.
///
/// # Panics
/// If this machine does not have the level.
pub fn ctr_xor(level: Level, key: &Key, counter: &[u8; BLOCK], data: &mut [u8]) {
    assert!(level.is_available(), "this machine does not have the AES level {level}");
    let counter = u128::from_be_bytes(*counter);
    // The kernels add only to the low half of the counter, so the data are split where it wraps. (0 stands for 2^64
    // blocks.)
    let blocks = (counter as u64).wrapping_neg();
    let cut = usize::try_from(u128::from(blocks) * BLOCK as u128).unwrap_or(usize::MAX);
    if cut == 0 || cut >= data.len() {
        ctr_xor_low(level, key, counter, data);
    } else {
        let (before, after) = data.split_at_mut(cut);
        ctr_xor_low(level, key, counter, before);
        ctr_xor_low(level, key, counter.wrapping_add(u128::from(blocks)), after);
    }
}

/// [`ctr_xor`], if the level is available and the low half of the counter does not wrap before the last block.
fn ctr_xor_low(level: Level, key: &Key, counter: u128, data: &mut [u8]) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::AesNi => unsafe { aesni::ctr_xor(key, counter, data) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Vaes256 => unsafe { vaes256::ctr_xor(key, counter, data) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Vaes512 => unsafe { vaes512::ctr_xor(key, counter, data) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: is_available() found the instructions.
        Level::Armv8 => unsafe { armv8::ctr_xor(key, counter, data) },
        _ => portable::ctr_xor(key, &counter.to_be_bytes(), data),
    }
}

/// Whether AES-NI expands a key of each length as the portable code does. Tested once, and only on machines with
/// AES-NI.
fn expands_rightly() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        static ASKED: Known = Known::unasked();
        const KEY: [u8; 32] = paint();
        ASKED.ask(|| {
            [(16, 10), (24, 12), (32, 14)].into_iter().all(|(len, rounds)| {
                // SAFETY: the caller has found the instructions.
                let by_instruction = unsafe { aesni::expand(&KEY[..len], rounds) };
                by_instruction == portable::expand(&KEY[..len], rounds, portable::sub_word)
            })
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// The answers of every level, folded.
const ANSWERS: u64 = 0xbec5_c6a7_f945_48b6;

/// Encrypts painted bytes with keys of each length. The counters carry through 32, 64 and 128 bits within them. The
/// lengths use every batch size of each kernel, and end within a block.
fn answers(ctr_xor: impl Fn(&Key, &[u8; BLOCK], &mut [u8])) -> u64 {
    const PLAIN: [u8; 1109] = paint();
    const COUNTERS: [u128; 3] = [0xffff_ffe0, (7 << 64) - 21, 0u128.wrapping_sub(37)];
    let mut sum = 0;
    for (len, counter) in [16, 24, 32].into_iter().zip(COUNTERS) {
        let mut data = PLAIN;
        ctr_xor(&Key::new(&PLAIN[9..][..len]), &counter.to_be_bytes(), &mut data);
        sum = fold(sum, &data);
    }
    sum
}

/// Returns the key by a reference that the compiler must treat as a new one, so that round keys are read again where
/// they are used. Otherwise a kernel with too few registers for them would keep copies on the stack, which are never
/// wiped.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn reread(key: &Key) -> &Key {
    let mut at: *const Key = key;
    // SAFETY: this is a comment and no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(reg) at, options(readonly, nostack, preserves_flags)) };
    // SAFETY: the pointer comes from `key`.
    unsafe { &*at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_answers_as_the_portable_one_does() {
        let portable = answers(portable::ctr_xor);
        assert_eq!(portable, ANSWERS, "{portable:#018x}");
        assert!(Level::available().all(Level::is_right));
    }

    /// Finds a wrong bit in any block, and a lost carry.
    #[test]
    #[cfg_attr(miri, ignore = "the known answers again and again")]
    fn a_level_that_computes_wrongly_is_found() {
        let wrong = |spoil: &dyn Fn(&[u8; BLOCK], &mut [u8])| {
            answers(|key, counter, data| {
                portable::ctr_xor(key, counter, data);
                spoil(counter, data);
            })
        };
        assert_eq!(wrong(&|_, _| {}), ANSWERS);
        for at in 0..1109 {
            assert_ne!(wrong(&|_, data| data[at] ^= 0x10), ANSWERS, "{at}");
        }
        assert_ne!(wrong(&|_, data| data[512..1024].rotate_left(16)), ANSWERS);
        for bits in [32, 64] {
            let stuck = answers(|key, counter, data| {
                let first = u128::from_be_bytes(*counter);
                for (i, block) in data.chunks_mut(BLOCK).enumerate() {
                    let mask = (1u128 << bits) - 1;
                    let at = first & !mask | first.wrapping_add(i as u128) & mask;
                    portable::ctr_xor(key, &at.to_be_bytes(), block);
                }
            });
            assert_ne!(stuck, ANSWERS, "{bits}");
        }
    }

    #[test]
    fn a_wrong_key_schedule_is_found() {
        for len in [16, 24, 32] {
            let mut key = Key::new(&[7; 32][..len]);
            assert!(key.is_right());
            key.round_keys[5][3] ^= 1;
            assert!(!key.is_right());
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_key_schedules_agree() {
        if Level::AesNi.is_available() {
            for (len, rounds) in [(16, 10), (24, 12), (32, 14)] {
                for fill in (0..=255).step_by(if cfg!(miri) { 85 } else { 1 }) {
                    let key: Vec<u8> = (0..len).map(|i: u8| i.wrapping_mul(37) ^ fill).collect();
                    // SAFETY: is_available() found the instructions.
                    let by_instruction = unsafe { aesni::expand(&key, rounds) };
                    assert_eq!(by_instruction, portable::expand(&key, rounds, portable::sub_word));
                }
            }
        }
    }
}
