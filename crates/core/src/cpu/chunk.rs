//! Sealing and opening chunks and messages on the CPU: where their parts lie, and which of them go to the kernels
//! together.

use crate::Suite;
use crate::cpu::ctr_sha3::{self, Expanded, Head, Slicing};
use crate::cpu::gcm;
use crate::cpu::levels::Levels;
use crate::cpu::pieces::{Bound, Piece};
use crate::keys::key::ContentKeys;
use crate::op::Op;
use crate::seam::{Bind, Job, Unit};
use phalanx_kernels::keccak;
use phalanx_kernels::keccak::DIGEST;
use subtle::ConstantTimeEq;

/// The most units that are tagged side by side.
const GROUP_UNITS: usize = 64;
/// The most slices in a group, unless one unit alone has more. This bounds the memory for digests.
const GROUP_SLICES: usize = 2048;

/// Seals or opens all units of a job in place. Returns the units that failed.
pub fn run(levels: Levels, job: &mut Job) -> Vec<usize> {
    let mut failed = Vec::new();
    let slice_len = job.slice_len();
    let mut pieces = pieces(job.suite, &mut job.buf, &mut job.units);
    let keys = Keys::new(job.suite, slice_len, &job.keys);
    let mut first = 0;
    while first < pieces.len() {
        let end = group_end(&pieces, slice_len, first);
        keys.run(levels, job.op, &mut pieces[first..end], |i| failed.push(first + i));
        first = end;
    }
    failed
}

/// Finishes a job of a CTR suite for an engine that hashes the slices itself. `digests` are the digests of the slices
/// of all units, of the ciphertext, in their order. Sealing sets the tags. Opening returns the units that are not
/// authentic, and decrypts nothing.
///
/// # Panics
/// If there are more or fewer digests than slices.
pub fn tag(level: keccak::Level, job: &mut Job, digests: &[[u8; DIGEST]]) -> Vec<usize> {
    if job.units.is_empty() {
        return Vec::new();
    }
    let (Job { buf, units, keys, .. }, slice_len) = (&*job, job.slice_len());
    let head = |unit: &Unit| Head {
        keys: &keys[unit.key as usize],
        nonce: unit.nonce,
        bound: match &unit.bind {
            Bind::Chunk { index, last } => Bound::Chunk { index: *index, last: *last },
            Bind::Message { ad } => Bound::Message { ad: &buf[ad.clone()] },
        },
        slices: unit.data.len().div_ceil(slice_len),
    };
    let mut tags = vec![[0; 32]; units.len()];
    ctr_sha3::tags(level, &units.iter().map(head).collect::<Vec<_>>(), digests, |i, tag| tags[i] = *tag);
    let units = job.units.iter_mut().zip(&tags);
    if job.op == Op::Seal {
        units.for_each(|(unit, tag)| unit.tag = *tag);
        return Vec::new();
    }
    let authentic: Vec<bool> = units.map(|(unit, tag)| unit.tag.ct_eq(&tag[..]).into()).collect();
    (0..authentic.len()).filter(|i| !authentic[*i]).collect()
}

/// The units' parts of the buffer.
fn pieces<'a>(suite: Suite, mut buf: &'a mut [u8], units: &'a mut [Unit]) -> Vec<Piece<'a>> {
    let mut at = 0;
    let mut piece = |unit: &'a mut Unit| {
        let (before, rest) = std::mem::take(&mut buf).split_at_mut(unit.data.start - at);
        let (data, rest) = rest.split_at_mut(unit.data.len());
        let bound = match &unit.bind {
            Bind::Chunk { index, last } => Bound::Chunk { index: *index, last: *last },
            Bind::Message { ad } => Bound::Message { ad: &before[ad.start - at..ad.end - at] },
        };
        (buf, at) = (rest, unit.data.end);
        Piece { key: unit.key as usize, nonce: unit.nonce, bound, data, tag: &mut unit.tag[..suite.tag_len()] }
    };
    units.iter_mut().map(&mut piece).collect()
}

fn group_end(pieces: &[Piece<'_>], slice_len: usize, first: usize) -> usize {
    let mut slices = 0;
    let fits = |piece: &&Piece| {
        slices += piece.data.len().div_ceil(slice_len);
        slices <= GROUP_SLICES
    };
    first + pieces[first..].iter().take(GROUP_UNITS).take_while(fits).count().max(1)
}

/// Keys, expanded once for all pieces if that saves work.
pub(crate) enum Keys<'a> {
    CtrSha3 { keys: Vec<Expanded<'a>>, slicing: Slicing },
    Gcm(&'a [ContentKeys]),
}

impl<'a> Keys<'a> {
    pub fn new(suite: Suite, slice_len: usize, keys: &'a [ContentKeys]) -> Self {
        match suite {
            Suite::Aes256Gcm => Keys::Gcm(keys),
            _ => {
                let keys = keys.iter().map(Expanded::new).collect();
                Keys::CtrSha3 { keys, slicing: Slicing::new(suite, slice_len) }
            }
        }
    }

    /// Seals or opens the pieces in place. Calls `fail` with those that are not authentic, in ascending order. These
    /// hold ciphertext or zeros.
    pub fn run(&self, levels: Levels, op: Op, pieces: &mut [Piece<'_>], fail: impl FnMut(usize)) {
        match (self, pieces) {
            (_, []) => {}
            (Keys::Gcm(keys), pieces) => gcm::run(op, keys, pieces, fail),
            (Keys::CtrSha3 { keys, slicing }, pieces) => {
                ctr_sha3::run(levels, op, keys, *slicing, pieces, fail);
            }
        }
    }
}
