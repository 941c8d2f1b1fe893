//! Files made by the reference, in parts that are cached. Its AES is slow, so each slot and each chunk is made once.

use phalanx_core::format::{FileKeys, Kdf};
use phalanx_core::{KdfLimit, SecretKey, Suite};
use phalanx_reference::{self as reference, Cost, Keys};
use std::collections::HashMap;
use std::rc::Rc;

/// The binary logarithm of the chunks' length in generated files.
pub const LOG2: u8 = 12;

/// Two files with keys of their own.
pub const FILE_KEYS: [[u8; 32]; 2] = [[0x21; 32], [0x42; 32]];

/// The first two can be given to a reader. The first is that of the vectors.
pub const USER_KEYS: [[u8; 32]; 3] = [
    [
        0x67, 0x0d, 0xbe, 0x1e, 0x30, 0x1a, 0x2b, 0x7d, 0xda, 0x49, 0x17, 0xb9, 0x15, 0xd4, 0x15, 0x76, 0x57, 0x5c,
        0x0d, 0xc5, 0x9f, 0x02, 0xdc, 0x18, 0x68, 0x69, 0xde, 0x5c, 0x5f, 0xea, 0x29, 0x07,
    ],
    [0xB1; 32],
    [0xC2; 32],
];

/// The password that can be given to a reader, that of the vectors, and another one.
pub const PASSWORDS: [&[u8]; 2] = [b"correct horse battery staple", b"another"];

/// Cheap ones, one exactly at [`LIMIT`], and two beyond it: one by its memory and one by its work.
pub const KDFS: [Kdf; 6] = [kdf(8, 1, 1), kdf(17, 1, 2), kdf(8, 2, 1), kdf(64, 2, 1), kdf(65, 1, 1), kdf(64, 3, 1)];

pub const LIMIT: KdfLimit = KdfLimit { memory_kib: 64, work: 128 };

const fn kdf(memory_kib: u32, passes: u32, lanes: u8) -> Kdf {
    Kdf { salt: [lanes; 16], memory_kib, passes, lanes }
}

/// The lengths of a suite, by the reference.
pub fn shape(suite: u8) -> reference::Suite {
    reference::Suite::of(suite).expect("a known suite")
}

/// A slot of a made file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Key(usize),
    Password { which: usize, kdf: usize },
    Other { kind: u8, len: usize },
}

/// A chunk of a made file. Two that differ in anything have different nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkId {
    pub file_key: usize,
    pub suite: u8,
    pub index: u8,
    pub last: bool,
    pub variant: u8,
    pub len: u16,
}

impl ChunkId {
    fn nonce(&self) -> Vec<u8> {
        let [low, high] = self.len.to_le_bytes();
        let mut nonce = vec![0xFF; shape(self.suite).nonce_len]; // CTR's counter carries through all its bytes
        let id = [self.file_key as u8, self.suite, self.index, self.last.into(), self.variant, low, high];
        nonce[..7].copy_from_slice(&id);
        nonce
    }

    /// The chunk whose nonce a record begins with.
    fn of(record: &[u8]) -> Option<Self> {
        let &[file_key, suite, index, last, variant, low, high] = record.first_chunk()?;
        let len = u16::from_le_bytes([low, high]);
        Some(Self { file_key: file_key.into(), suite, index, last: last == 1, variant, len })
    }
}

/// A chunk as it is stored, and its plaintext.
pub struct Chunk {
    pub record: Vec<u8>,
    pub plaintext: Vec<u8>,
}

/// Everything that was made so far.
pub struct Made {
    chunks: HashMap<ChunkId, Rc<Chunk>>,
    slots: HashMap<(usize, Way), Rc<[u8]>>,
    /// The keys by file key and suite.
    keys: Vec<(Keys, FileKeys)>,
    ids: [[u8; 16]; 3],
}

impl Made {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let both = |file_key: &[u8; 32], suite: &Suite| {
            let core = SecretKey::from_slice(file_key).expect("32 bytes").file_keys(*suite);
            (reference::file_keys(file_key, suite.id()), core)
        };
        let keys = FILE_KEYS.iter().flat_map(|file_key| Suite::ALL.iter().map(move |suite| both(file_key, suite)));
        let ids = USER_KEYS.map(|key| reference::key_id(&key));
        Self { chunks: HashMap::new(), slots: HashMap::new(), keys: keys.collect(), ids }
    }

    fn keys(&self, file_key: usize, suite: u8) -> &(Keys, FileKeys) {
        &self.keys[Suite::ALL.len() * file_key + usize::from(suite) - 1]
    }

    /// The core's keys of a file.
    pub fn file_keys(&self, file_key: usize, suite: u8) -> &FileKeys {
        &self.keys(file_key, suite).1
    }

    /// The id of a user's key.
    pub fn id(&self, key: usize) -> [u8; 16] {
        self.ids[key]
    }

    pub fn chunk(&mut self, id: ChunkId) -> Rc<Chunk> {
        if let Some(chunk) = self.chunks.get(&id) {
            return chunk.clone();
        }
        let plaintext: Vec<u8> =
            (0..id.len).map(|i| (i % 251) as u8 ^ (id.index.wrapping_mul(16) | id.variant)).collect();
        let keys = &self.keys(id.file_key, id.suite).0;
        let record = reference::seal_chunk(keys, LOG2, id.index.into(), id.last.into(), &id.nonce(), &plaintext);
        let chunk = Rc::new(Chunk { record, plaintext });
        self.chunks.insert(id, chunk.clone());
        chunk
    }

    /// The chunk in a record, if it was made for this place. Only such chunks are authentic. `header` gives the suite and
    /// the chunk size.
    pub fn find(
        &self,
        file_key: usize,
        header: &reference::Header,
        index: u64,
        last: bool,
        record: &[u8],
    ) -> Option<&Rc<Chunk>> {
        let id = ChunkId::of(record)?;
        // In chunks of another size the slices have other digests, unless there is at most one slice.
        let (made, asked) = (reference::slice_len(LOG2), reference::slice_len(header.chunk_log2));
        let is_gcm = shape(header.suite).authentication == reference::Authentication::Gcm;
        let same_slices = is_gcm || made == asked || usize::from(id.len) <= made.min(asked);
        let place = (id.file_key, id.suite, u64::from(id.index), id.last) == (file_key, header.suite, index, last)
            && same_slices;
        self.chunks.get(&id).filter(|chunk| place && chunk.record == record)
    }

    /// A slot as it is stored.
    pub fn slot(&mut self, file_key: usize, way: Way) -> Rc<[u8]> {
        let make = || {
            let slot = match way {
                Way::Key(key) => reference::Slot::Key { key: USER_KEYS[key] },
                Way::Password { which, kdf } => {
                    let Kdf { salt, memory_kib: memory, passes, lanes } = KDFS[kdf];
                    let password = PASSWORDS[which].to_vec();
                    reference::Slot::Password { password, salt, cost: Cost { memory, passes, lanes } }
                }
                Way::Other { kind, len } => reference::Slot::Raw { kind, body: vec![0; len] },
            };
            reference::write_slot(&slot, &FILE_KEYS[file_key]).into()
        };
        self.slots.entry((file_key, way)).or_insert_with(make).clone()
    }

    /// The file key that a slot's body holds for a user's key, or for the password.
    pub fn unwrap(&mut self, body: &[u8], ways: impl Iterator<Item = Way>) -> Option<usize> {
        for way in ways {
            for file_key in 0..FILE_KEYS.len() {
                if self.slot(file_key, way)[3..] == *body {
                    return Some(file_key);
                }
            }
        }
        None
    }
}

/// An unfinished file.
pub struct File {
    pub file_key: usize,
    pub suite: u8,
    pub header_len: usize,
    pub bytes: Vec<u8>,
}

impl File {
    /// A valid file with these slots and a plaintext of `len` bytes.
    pub fn new(made: &mut Made, file_key: usize, suite: u8, ways: &[Way], len: usize, variant: u8) -> Self {
        let mut bytes = b"PHALANX\x01\0\0\0\0".to_vec();
        bytes.extend([suite, LOG2, 0, 0]);
        bytes.extend((ways.len() as u16).to_le_bytes());
        ways.iter().for_each(|way| bytes.extend(&*made.slot(file_key, *way)));
        bytes.extend([0; 32]);
        let mut file = Self { file_key, suite, header_len: bytes.len(), bytes };
        file.repair_len();
        file.repair_tag(made, file_key);
        let chunks = len.div_ceil(1 << LOG2).max(1);
        for index in 0..chunks {
            let last = index + 1 == chunks;
            let len = if last { len - (index << LOG2) } else { 1 << LOG2 } as u16;
            let id = ChunkId { file_key, suite, index: index as u8, last, variant, len };
            file.bytes.extend(&made.chunk(id).record);
        }
        file
    }

    /// Writes the header's length where it belongs.
    pub fn repair_len(&mut self) {
        if let Some(field) = self.bytes.get_mut(8..12) {
            field.copy_from_slice(&(self.header_len as u32).to_le_bytes());
        }
    }

    /// Corrects the header's tag, if the header's form shows where it is.
    pub fn repair_tag(&mut self, made: &Made, file_key: usize) {
        let Some(suite) = self.bytes.get(12).and_then(|id| Suite::from_id(*id)) else { return };
        if let Some(header) = self.bytes.get_mut(..self.header_len)
            && header.len() >= 53
        {
            let (body, tag) = header.split_at_mut(header.len() - 32);
            tag.copy_from_slice(&made.file_keys(file_key, suite.id()).header_tag(body));
        }
    }

    /// The place where the chunk `index` is stored, limited to the file.
    pub fn record(&self, index: usize) -> std::ops::Range<usize> {
        let end = self.bytes.len();
        let len = shape(self.suite).overhead() + (1 << LOG2);
        let start = self.header_len + index * len;
        start.min(end)..(start + len).min(end)
    }
}
