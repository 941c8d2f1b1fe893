//! The CTR suites on the CPU, AES-CTR and SHA-3 or TurboSHAKE: `docs/format.md`, sections 3 and 7.
//!
//! Slices of all chunks or messages pass through the kernels side by side, so that short ones keep the lanes as busy as
//! long ones. A slice is encrypted just before a lane takes it, and hashed while it is in the first-level cache.

use crate::Suite;
use crate::cpu::levels::Levels;
use crate::cpu::pieces::{Bound, Piece};
use crate::keys::key::{CHUNK, ContentKeys};
use crate::op::Op;
use crate::seam::{Nonce, SLICE, Tag};
use crate::secret::wipe;
use phalanx_kernels::aes::{self, BLOCK, counter_after};
use phalanx_kernels::keccak::{self, DIGEST, Kmac256, Label, RATE};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;
use subtle::ConstantTimeEq;

/// The domain separation byte of the slices' TurboSHAKE256.
const SLICE_DOMAIN: u8 = 0x50;

/// How many bytes are encrypted at once: half of the smallest first-level cache.
const WINDOW: usize = 4 * SLICE;

/// How ciphertext is cut into slices, and how these are hashed.
#[derive(Clone, Copy)]
pub(crate) struct Slicing {
    /// The length of a slice in bytes.
    pub len: usize,
    /// Whether slices are hashed by TurboSHAKE256 instead of SHA3-256.
    pub is_turbo: bool,
}

impl Slicing {
    pub fn new(suite: Suite, len: usize) -> Self {
        Self { len, is_turbo: suite == Suite::Aes256CtrTurboShake }
    }

    /// The number of slices in `bytes` bytes.
    pub fn count(self, bytes: usize) -> usize {
        bytes.div_ceil(self.len)
    }
}

/// Keys, with the AES key schedule.
pub(crate) struct Expanded<'a> {
    schedule: Cow<'a, aes::Key>,
    keys: &'a ContentKeys,
}

impl<'a> Expanded<'a> {
    pub fn new(keys: &'a ContentKeys) -> Self {
        let schedule = match keys.chunk_keys() {
            Some(chunk_keys) => Cow::Borrowed(&chunk_keys.schedule),
            None => Cow::Owned(aes::Key::new(keys.encrypt())),
        };
        Self { schedule, keys }
    }
}

/// The label of the KMACs of chunks, or of messages.
fn label(bound: Bound<'_>) -> &'static Label {
    static MESSAGE: LazyLock<Label> = LazyLock::new(|| Label::new(b"phalanx v1 message"));
    match bound {
        Bound::Chunk { .. } => &CHUNK,
        Bound::Message { .. } => &MESSAGE,
    }
}

/// What a tag authenticates, without the digests of the slices.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub keys: &'a ContentKeys,
    pub nonce: Nonce,
    pub bound: Bound<'a>,
    /// The number of slices.
    pub slices: usize,
}

impl<'a> Head<'a> {
    fn of(keys: &[Expanded<'a>], slicing: Slicing, piece: &Piece<'a>) -> Self {
        let slices = slicing.count(piece.data.len());
        Self { keys: keys[piece.key].keys, nonce: piece.nonce, bound: piece.bound, slices }
    }

    /// The KMAC of the tag, if it has already absorbed its key. Otherwise its input begins with the key's block.
    fn keyed(&self) -> Option<&'a Kmac256> {
        match self.bound {
            Bound::Chunk { .. } => self.keys.chunk_keys().map(|keys| &keys.mac),
            Bound::Message { .. } => None,
        }
    }
}

/// Computes the tags from the digests of all slices, which were computed elsewhere. Calls `each` with every tag, in any
/// order.
pub(crate) fn tags(level: keccak::Level, heads: &[Head<'_>], digests: &[[u8; DIGEST]], each: impl FnMut(usize, &Tag)) {
    let mut scratch = Scratch::new(heads.iter().copied());
    assert_eq!(digests.len(), scratch.slices.len(), "a digest for each slice");
    for (place, digest) in scratch.slices.iter().zip(digests) {
        put(&mut scratch.bytes, *place, digest);
    }
    let ads = heads.iter().filter_map(|head| associated_data(head.bound));
    keccak::sha3_256_each(level, ads, |i, digest| put(&mut scratch.bytes, scratch.ads[i], digest));
    scratch.tags(level, each);
}

/// Seals or opens all pieces in place, side by side. Calls `fail` with those that are not authentic, in ascending
/// order.
pub(crate) fn run(
    levels: Levels,
    op: Op,
    keys: &[Expanded],
    slicing: Slicing,
    pieces: &mut [Piece<'_>],
    fail: impl FnMut(usize),
) {
    let mut scratch = Scratch::new(pieces.iter().map(|piece| Head::of(keys, slicing, piece)));
    scratch.digest(levels, op, keys, slicing, pieces);
    scratch.finish(levels, op, pieces, fail, |piece| {
        aes::ctr_xor(levels.aes, &keys[piece.key].schedule, &piece.nonce, piece.data);
    });
}

/// The associated data to hash: those of a message, unless they are empty.
fn associated_data(bound: Bound<'_>) -> Option<&[u8]> {
    match bound {
        Bound::Message { ad } if !ad.is_empty() => Some(ad),
        _ => None,
    }
}

/// The slices of `data`. If there is a key, each is encrypted before it is returned.
fn slices<'a>(
    levels: Levels,
    key: Option<&'a aes::Key>,
    counter: &Nonce,
    slice_len: usize,
    data: &'a mut [u8],
) -> impl Iterator<Item = &'a [u8]> {
    let counter = *counter;
    data.chunks_mut(WINDOW).enumerate().flat_map(move |(i, window)| {
        if let Some(key) = key {
            aes::ctr_xor(levels.aes, key, &counter_after(&counter, (i * WINDOW / BLOCK) as u64), window);
        }
        let window: &'a [u8] = window;
        window.chunks(slice_len)
    })
}

/// The inputs of all tags, one after another. Wiped on drop.
struct Scratch<'a> {
    bytes: Vec<u8>,
    /// The KMAC of each piece, and the place of its input.
    messages: Vec<(&'a Kmac256, Range<usize>)>,
    /// The places of the digests of associated data.
    ads: Vec<usize>,
    /// The places of the digests of slices.
    slices: Vec<usize>,
}

fn put(bytes: &mut [u8], place: usize, digest: &[u8; DIGEST]) {
    bytes[place..][..DIGEST].copy_from_slice(digest);
}

impl<'a> Scratch<'a> {
    /// Fills in everything except the digests, which are left zero.
    fn new(heads: impl ExactSizeIterator<Item = Head<'a>> + Clone) -> Self {
        /// The longest input before the slices' digests: key, nonce, and the digest of associated data.
        const PREFIX: usize = RATE + size_of::<Nonce>() + DIGEST;
        let (count, digests) = (heads.len(), heads.clone().map(|head| head.slices).sum::<usize>());
        let mut scratch = Self {
            // Large enough that it is never moved. Moving it would leave keys in freed memory.
            bytes: Vec::with_capacity(count * PREFIX + digests * DIGEST),
            messages: Vec::with_capacity(count),
            ads: Vec::new(),
            slices: Vec::with_capacity(digests),
        };
        for head in heads {
            let start = scratch.bytes.len();
            let kmac = head.keyed().unwrap_or_else(|| {
                scratch.bytes.resize(start + RATE, 0);
                keccak::key_block(head.keys.mac(), scratch.bytes.last_chunk_mut().expect("a block"));
                label(head.bound).unkeyed()
            });
            scratch.bytes.extend_from_slice(&head.nonce);
            match head.bound {
                Bound::Chunk { index, last } => {
                    scratch.bytes.extend_from_slice(&index.to_le_bytes());
                    scratch.bytes.push(u8::from(last));
                }
                Bound::Message { ad: [] } => scratch.bytes.extend_from_slice(&EMPTY),
                Bound::Message { .. } => {
                    scratch.ads.push(scratch.bytes.len());
                    scratch.bytes.extend_from_slice(&[0; DIGEST]);
                }
            }
            let end = scratch.bytes.len() + head.slices * DIGEST;
            scratch.slices.extend((scratch.bytes.len()..end).step_by(DIGEST));
            scratch.bytes.resize(end, 0);
            scratch.messages.push((kmac, start..scratch.bytes.len()));
        }
        scratch
    }

    /// Fills in the digests of associated data and slices. Sealing encrypts the slices first.
    fn digest(&mut self, levels: Levels, op: Op, keys: &[Expanded], slicing: Slicing, pieces: &mut [Piece<'_>]) {
        let Self { bytes, ads: places, slices: slice_places, .. } = self;
        let ads: Vec<_> = pieces.iter().filter_map(|piece| associated_data(piece.bound)).collect();
        let slices = pieces.iter_mut().flat_map(|piece| {
            let key = (op == Op::Seal).then_some(&*keys[piece.key].schedule);
            slices(levels, key, &piece.nonce, slicing.len, piece.data)
        });
        if slicing.is_turbo {
            keccak::sha3_256_each(levels.keccak, ads, |i, digest| put(bytes, places[i], digest));
            keccak::turboshake256_each::<SLICE_DOMAIN>(levels.keccak, slices, |i, digest| {
                put(bytes, slice_places[i], digest);
            });
        } else {
            // Side by side, so that no lane waits.
            let place = |i: usize| places.get(i).unwrap_or_else(|| &slice_places[i - places.len()]);
            keccak::sha3_256_each(levels.keccak, ads.into_iter().chain(slices), |i, digest| {
                put(bytes, *place(i), digest);
            });
        }
    }

    /// Computes the tags.
    fn tags(&self, level: keccak::Level, each: impl FnMut(usize, &Tag)) {
        let inputs = self.messages.iter().map(|(kmac, message)| (*kmac, &self.bytes[message.clone()]));
        keccak::kmac256_each(level, inputs, each);
    }

    /// Computes the tags. Opening compares them, and decrypts what is authentic.
    fn finish(
        &self,
        levels: Levels,
        op: Op,
        pieces: &mut [Piece<'_>],
        mut fail: impl FnMut(usize),
        decrypt: impl Fn(&mut Piece<'_>),
    ) {
        let mut passed = vec![true; pieces.len()];
        self.tags(levels.keccak, |i, tag| match op {
            Op::Seal => pieces[i].tag.copy_from_slice(tag),
            Op::Open => passed[i] = pieces[i].tag[..].ct_eq(tag).into(),
        });
        if op == Op::Open {
            for (i, piece) in pieces.iter_mut().enumerate() {
                if passed[i] { decrypt(piece) } else { fail(i) }
            }
        }
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}

/// SHA3-256 of nothing (FIPS 202): most messages have no associated data.
const EMPTY: [u8; DIGEST] = [
    0xa7, 0xff, 0xc6, 0xf8, 0xbf, 0x1e, 0xd7, 0x66, 0x51, 0xc1, 0x47, 0x56, 0xa0, 0x61, 0xd6, 0x62, 0xf5, 0x80, 0xff,
    0x4d, 0xe4, 0x3b, 0x49, 0xfa, 0x82, 0xd8, 0x0a, 0x4b, 0x80, 0xf8, 0x43, 0x4a,
];
