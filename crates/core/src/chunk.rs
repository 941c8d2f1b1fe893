//! Sealing and opening units on the CPU: `docs/format.md`, sections 3 and 7.
//!
//! Slices of all units pass through the kernels side by side, so that short units keep the lanes as busy as long ones,
//! and a slice is hashed while it is in the first-level cache.

use crate::engine::{Bind, Op, SLICE, Unit};
use crate::key::ContentKeys;
use phalanx_kernels::aes::{self, counter_after};
use phalanx_kernels::keccak::{self, DIGEST, Kmac256, MAX_LANES};
use std::ops::Range;
use subtle::ConstantTimeEq;

/// The kernels in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// For AES-CTR.
    pub aes: aes::Level,
    /// For SHA3-256 and KMAC256.
    pub keccak: keccak::Level,
}

impl Levels {
    /// The fastest of this machine.
    pub fn detect() -> Self {
        Self { aes: aes::Level::detect(), keccak: keccak::Level::detect() }
    }
}

/// As many units as are tagged side by side.
const GROUP_UNITS: usize = 64;
/// As many slices as a group holds, unless one unit alone has more: bounds the room for digests.
const GROUP_SLICES: usize = MAX_LANES * 256;

/// Seals or opens all units in place. Returns the units that failed.
pub fn run(levels: Levels, op: Op, keys: &[ContentKeys], buf: &mut [u8], units: &mut [Unit]) -> Vec<usize> {
    let mut failed = Vec::new();
    let mut scratch = Scratch::default();
    let mut first = 0;
    while first < units.len() {
        let end = group_end(units, first);
        let group = &mut units[first..end];
        match op {
            Op::Seal => {
                scratch.digest(levels, keys, buf, group, true);
                scratch.tag(levels, keys, group, |unit, tag| unit.tag = *tag);
            }
            Op::Open => {
                scratch.digest(levels, keys, buf, group, false);
                let mut passed = [false; GROUP_UNITS];
                let mut at = 0;
                scratch.tag(levels, keys, group, |unit, tag| {
                    passed[at] = unit.tag.ct_eq(tag).into();
                    at += 1;
                });
                for (i, unit) in group.iter().enumerate() {
                    if passed[i] {
                        let schedule = keys[unit.key as usize].schedule();
                        aes::ctr_xor(levels.aes, schedule, &unit.nonce, &mut buf[unit.data.clone()]);
                    } else {
                        failed.push(first + i);
                    }
                }
            }
        }
        first = end;
    }
    failed
}

fn group_end(units: &[Unit], first: usize) -> usize {
    let mut slices = 0;
    let fits = |unit: &&Unit| {
        slices += unit.data.len().div_ceil(SLICE);
        slices <= GROUP_SLICES
    };
    first + units[first..].iter().take(GROUP_UNITS).take_while(fits).count().max(1)
}

/// The messages that the tags of a group authenticate, one behind another.
#[derive(Default)]
struct Scratch {
    bytes: Vec<u8>,
    /// Where each unit's message lies.
    messages: Vec<Range<usize>>,
}

impl Scratch {
    /// Lays out each unit's message, and fills in the digests of its slices, which are encrypted first where `encrypt` says so.
    fn digest(&mut self, levels: Levels, keys: &[ContentKeys], buf: &mut [u8], units: &[Unit], encrypt: bool) {
        self.bytes.clear();
        self.messages.clear();
        let mut lanes = Lanes::new(levels.keccak);
        for unit in units {
            let start = self.bytes.len();
            self.push_prefix(unit);
            let mut digest_at = self.bytes.len();
            let slices = unit.data.len().div_ceil(SLICE);
            self.bytes.resize(digest_at + slices * DIGEST, 0);
            self.messages.push(start..self.bytes.len());

            let mut at = unit.data.start;
            while at < unit.data.end {
                let window = at..unit.data.end.min(at + lanes.free() * SLICE);
                if encrypt {
                    let counter = counter_after(&unit.nonce, ((at - unit.data.start) / aes::BLOCK) as u64);
                    let schedule = keys[unit.key as usize].schedule();
                    aes::ctr_xor(levels.aes, schedule, &counter, &mut buf[window.clone()]);
                }
                while at < window.end {
                    let slice = at..window.end.min(at + SLICE);
                    at = slice.end;
                    lanes.push(slice, digest_at);
                    digest_at += DIGEST;
                }
                if lanes.free() == 0 {
                    lanes.hash(buf, &mut self.bytes);
                }
            }
        }
        lanes.hash(buf, &mut self.bytes);
    }

    fn push_prefix(&mut self, unit: &Unit) {
        self.bytes.extend_from_slice(&unit.nonce);
        match &unit.bind {
            Bind::Chunk { index, last } => {
                self.bytes.extend_from_slice(&index.to_le_bytes());
                self.bytes.push(u8::from(*last));
            }
            Bind::Message { ad } => self.bytes.extend_from_slice(ad),
        }
    }

    /// Computes the group's tags in lanes, and hands each to `give` with its unit, in order.
    fn tag(
        &self,
        levels: Levels,
        keys: &[ContentKeys],
        units: &mut [Unit],
        mut give: impl FnMut(&mut Unit, &[u8; 32]),
    ) {
        let mut inputs: [(&Kmac256, &[u8]); GROUP_UNITS] = [(keys[0].tagger(), &[]); GROUP_UNITS];
        for ((input, unit), message) in inputs.iter_mut().zip(units.iter()).zip(&self.messages) {
            *input = (keys[unit.key as usize].tagger(), &self.bytes[message.clone()]);
        }
        let mut tags = [[0; DIGEST]; GROUP_UNITS];
        keccak::kmac256_many(levels.keccak, &inputs[..units.len()], &mut tags[..units.len()]);
        units.iter_mut().zip(&tags).for_each(|(unit, tag)| give(unit, tag));
    }
}

/// Slices that wait to be hashed side by side.
struct Lanes {
    level: keccak::Level,
    waiting: [(Range<usize>, usize); MAX_LANES],
    count: usize,
}

impl Lanes {
    fn new(level: keccak::Level) -> Self {
        Self { level, waiting: std::array::from_fn(|_| (0..0, 0)), count: 0 }
    }

    /// How many slices still fit.
    fn free(&self) -> usize {
        MAX_LANES - self.count
    }

    /// Takes a slice of the buffer, and where its digest goes.
    fn push(&mut self, slice: Range<usize>, digest_at: usize) {
        self.waiting[self.count] = (slice, digest_at);
        self.count += 1;
    }

    fn hash(&mut self, buf: &[u8], out: &mut [u8]) {
        let waiting = &self.waiting[..self.count];
        let mut inputs: [&[u8]; MAX_LANES] = [&[]; MAX_LANES];
        for (input, (slice, _)) in inputs.iter_mut().zip(waiting) {
            *input = &buf[slice.clone()];
        }
        let mut digests = [[0; DIGEST]; MAX_LANES];
        keccak::sha3_256_many(self.level, &inputs[..self.count], &mut digests[..self.count]);
        for ((_, at), digest) in waiting.iter().zip(&digests) {
            out[*at..at + DIGEST].copy_from_slice(digest);
        }
        self.count = 0;
    }
}
