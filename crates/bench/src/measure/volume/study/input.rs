//! The inputs.

use crate::measure::Setup;
use crate::measure::scratch::{random, random_vec};
use phalanx_core::engine::Nonce;

/// The bytes that the paper hands to the GPU at a time.
pub const PART: usize = 32_000;
/// The first counter block. Its low half is near its end, so that carries occur.
pub const COUNTER: Nonce = *b"\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\0";

#[derive(Clone, Copy)]
pub struct Input {
    /// The length of a part. Parts are handed to a device one after another, or each to a stream of its own.
    pub part: usize,
    pub parts: usize,
}

impl Input {
    pub fn bytes(self) -> usize {
        self.part * self.parts
    }

    pub fn name(self) -> String {
        match (self.part, self.parts) {
            (part, 1) => size(part),
            (part, parts) => format!("{parts} × {}", size(part)),
        }
    }
}

pub fn size(bytes: usize) -> String {
    match bytes {
        n if n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    }
}

/// The inputs in order of their lengths. The paper's own are 32,000 bytes and five times as many.
pub fn inputs(quick: bool) -> Vec<Input> {
    let one = |part| Input { part, parts: 1 };
    let five = Input { part: PART, parts: 5 };
    if quick {
        return vec![one(4 << 10), one(PART), five, one(1 << 20)];
    }
    let powers = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20].map(one);
    let mut inputs: Vec<Input> = powers.into_iter().chain([one(PART), five]).collect();
    inputs.sort_by_key(|input| input.bytes());
    inputs
}

pub fn rounds(setup: &Setup) -> usize {
    if setup.quick { 3 } else { 7 }
}

pub fn key() -> [u8; 32] {
    random(4)
}

pub fn plaintext(len: usize) -> Vec<u8> {
    random_vec(len as u64, len)
}

/// Whether the parts, one after another, are these bytes.
pub fn are<'a>(parts: impl IntoIterator<Item = &'a [u8]>, wanted: &[u8]) -> bool {
    parts.into_iter().collect::<Vec<_>>().concat() == wanted
}
