//! Alters a generated file: its bytes, its chunks, its header.

use crate::Steer;
use crate::made::{ChunkId, File, Made, Way, shape};
use phalanx_core::Suite;

/// A file of the reference, altered or not.
pub struct Altered {
    pub file: File,
    pub ways: Vec<Way>,
    /// The length of its plaintext, before it was altered.
    pub len: usize,
    pub altered: bool,
}

impl Altered {
    /// `hash` allows a long one.
    pub fn new(made: &mut Made, steer: &mut Steer, hash: u64) -> Self {
        let shape = steer.byte();
        let suite = 1 + shape % Suite::ALL.len() as u8;
        let file_key = usize::from(shape >> 3) & 1;
        let ways: Vec<_> = (0..1 + (shape >> 4) % 5).map(|_| way(steer)).collect();
        let len = plaintext_len(steer, hash);
        let mut file = File::new(made, file_key, suite, &ways, len, 0);
        // The other file: another plaintext under the same file key, or a file with a key of its own.
        let altered = !steer.is_empty();
        if altered {
            let shape = steer.byte();
            let other_len = if shape & 4 == 0 { len } else { plaintext_len(steer, 1) };
            let other = File::new(made, file_key ^ usize::from(shape & 1), suite, &ways, other_len, 1);
            alter(made, &mut file, &other, steer);
        }
        Self { file, ways, len, altered }
    }
}

/// The length of a plaintext: mostly short, rarely long enough for more than one vectored read.
pub fn plaintext_len(steer: &mut Steer, hash: u64) -> usize {
    match steer.byte() {
        more @ 192..240 => (usize::from(more) % 3 + 1) * 4096 + usize::from(chunk_len(steer) % 4096),
        0xF7 if hash.is_multiple_of(16) => 70 * 4096 + 1,
        short => usize::from(short) / 3,
    }
}

/// The slots of a file: one to five, of all kinds.
fn way(steer: &mut Steer) -> Way {
    let kind = steer.byte();
    let more = usize::from(kind >> 4);
    match kind & 15 {
        0..=4 => Way::Key(0),
        5 | 6 => Way::Key(1),
        7 => Way::Key(2),
        8..=10 => Way::Password { which: 0, kdf: more % 4 },
        11 => Way::Password { which: 0, kdf: more % 6 },
        12 => Way::Password { which: 1, kdf: more % 6 },
        13 => Way::Other { kind: 0, len: more },
        14 => Way::Other { kind: 3 + more as u8, len: 40 },
        _ => Way::Other { kind: 0, len: 100 * more },
    }
}

/// Applies the changes that the rest of the bytes describe, up to a few. `other` is a file to take parts from.
fn alter(made: &mut Made, file: &mut File, other: &File, steer: &mut Steer) {
    for _ in 0..8 {
        if steer.is_empty() {
            return;
        }
        one(made, file, other, steer);
    }
}

fn one(made: &mut Made, file: &mut File, other: &File, steer: &mut Steer) {
    // Where a chunk's tag and ciphertext begin.
    let (tag, head) = (shape(file.suite).nonce_len, shape(file.suite).overhead());
    match steer.byte() % 20 {
        0 => flip(&mut file.bytes, steer),
        1 => {
            let header_len = file.header_len.min(file.bytes.len());
            flip(&mut file.bytes[..header_len], steer);
        }
        // Nonce, tag or ciphertext of one chunk.
        2 => {
            let record = file.record(steer.below(4));
            let parts = [0..tag, tag..head, head..head + 4, head..record.len()];
            let part = parts[steer.below(4)].clone();
            if let Some(part) = file.bytes[record].get_mut(part) {
                flip(part, steer);
            }
        }
        3 => file.bytes.truncate(file.bytes.len().saturating_sub(1 + steer.below(60))),
        4 => file.bytes.truncate(steer.below(file.bytes.len().min(65536))),
        // To, or near, the end of some chunk, or of its nonce and tag.
        5 => {
            let start = file.record(steer.below(4)).start
                + steer.pick(&[0, 1, tag - 1, tag, head - 1, head, head + 1, head + 4095]);
            file.bytes.truncate(start);
        }
        6 => file.bytes.extend(vec![steer.byte(); steer.below(100)]),
        7 => {
            let at = steer.below(file.bytes.len().min(65535) + 1);
            let inserted = steer.take(usize::from(file.bytes[..at].len() as u8 % 8) + 1);
            file.bytes.splice(at..at, inserted.iter().copied());
        }
        // Chunks: swapped, repeated, dropped.
        8 => {
            let (a, b) = (steer.below(4), steer.below(4));
            let (a, b) = (file.record(a.min(b)), file.record(a.max(b)));
            if a.end <= b.start {
                let (first, second) = (file.bytes[a.clone()].to_vec(), file.bytes[b.clone()].to_vec());
                file.bytes.splice(b, first);
                file.bytes.splice(a, second);
            }
        }
        9 => {
            let copy = file.bytes[file.record(steer.below(4))].to_vec();
            let at = file.record(steer.below(5)).start;
            file.bytes.splice(at..at, copy);
        }
        10 => drop(file.bytes.drain(file.record(steer.below(4)))),
        // Chunks of another file, in place of one, or at the end.
        11 => {
            let part = other.bytes[other.record(steer.below(4))].to_vec();
            let at = file.record(steer.below(4));
            file.bytes.splice(at, part);
        }
        // The end of another file.
        12 => {
            let from = other.record(steer.below(4)).start + steer.pick(&[0, 0, 0, 1, head]);
            let at = file.record(steer.below(4)).start;
            file.bytes.truncate(at);
            file.bytes.extend(other.bytes.get(from..).unwrap_or_default());
        }
        // A chunk that is valid by itself, of any kind and at any place.
        13 => {
            let index = steer.below(4);
            let place = if steer.flag() { index } else { steer.below(5) };
            let len = chunk_len(steer);
            let (last, variant) = (steer.flag(), steer.byte() & 1);
            let file_key = if steer.byte() < 230 { file.file_key } else { other.file_key };
            let suite = file.suite;
            let sound = made.chunk(ChunkId { file_key, suite, index: index as u8, last, variant, len });
            let place = file.record(place);
            file.bytes.splice(place, sound.record.iter().copied());
        }
        // The header's fixed fields.
        14 => field(file, steer),
        // Slots: added, dropped, swapped, or replaced by those of the other file.
        15 => {
            let file_key = if steer.flag() { file.file_key } else { other.file_key };
            let slot = made.slot(file_key, way(steer));
            let at = slot_at(file, steer.below(6));
            insert(file, at, &slot);
        }
        16 => {
            let (at, end) = (slot_at(file, steer.below(4)), slot_at(file, 64));
            let len = slot_len(file, at).min(end - at);
            if len > 0 {
                file.bytes.drain(at..at + len);
                file.header_len -= len;
                count(file, -1);
            }
        }
        // A valid header, so that the code after it is reached.
        17 => {
            file.repair_len();
            file.repair_tag(made, file.file_key);
        }
        18 => file.repair_tag(made, file.file_key),
        _ => {
            file.repair_len();
            file.repair_tag(made, other.file_key);
        }
    }
}

/// The length of a chunk's plaintext: mostly short.
fn chunk_len(steer: &mut Steer) -> u16 {
    match steer.byte() {
        short @ 0..=63 => short.into(),
        64..=191 => 4096,
        n => [0, 1, 15, 16, 17, 255, 4095, 4097, 8192][usize::from(n) % 9],
    }
}

fn flip(bytes: &mut [u8], steer: &mut Steer) {
    if !bytes.is_empty() {
        let at = steer.below(bytes.len().min(65536));
        bytes[at] ^= 1 << (steer.byte() & 7);
    }
}

fn field(file: &mut File, steer: &mut Steer) {
    let Some(fixed) = file.bytes.first_chunk_mut::<18>() else { return };
    match steer.byte() % 8 {
        0 => fixed[steer.below(8)] = steer.byte(),
        1 => fixed[8..12]
            .copy_from_slice(&(file.header_len as u32).wrapping_add(steer.byte() as i8 as u32).to_le_bytes()),
        2 => fixed[8..12].copy_from_slice(&steer.u32().to_le_bytes()),
        3 => fixed[12] = steer.byte() % 6,
        4 => fixed[13] = steer.byte() % 28,
        5 => fixed[14..16].copy_from_slice(&steer.u16().to_le_bytes()),
        6 => fixed[16..18].copy_from_slice(&steer.u16().to_le_bytes()),
        _ => count(file, steer.byte() as i8),
    }
}

fn count(file: &mut File, by: i8) {
    if let Some(field) = file.bytes.get_mut(16..18) {
        let count = u16::from_le_bytes([field[0], field[1]]).wrapping_add_signed(by.into());
        field.copy_from_slice(&count.to_le_bytes());
    }
}

fn insert(file: &mut File, at: usize, slot: &[u8]) {
    if at + 32 <= file.bytes.len() {
        file.bytes.splice(at..at, slot.iter().copied());
        file.header_len += slot.len();
        count(file, 1);
    }
}

/// The beginning of a slot, or the end of the slots, if their lengths can be followed.
fn slot_at(file: &File, index: usize) -> usize {
    let end = file.header_len.min(file.bytes.len()).saturating_sub(32);
    let mut at = 18.min(end);
    for _ in 0..index {
        match slot_len(file, at) {
            len @ 1.. if at + len <= end => at += len,
            _ => break,
        }
    }
    at
}

/// The length of the slot that begins there, or 0 if there is none.
fn slot_len(file: &File, at: usize) -> usize {
    let end = file.header_len.min(file.bytes.len()).saturating_sub(32);
    match file.bytes.get(at..end) {
        Some([_, low, high, ..]) => 3 + usize::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    }
}
