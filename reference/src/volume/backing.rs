//! The files of a volume (§10.6).

use super::Config;
use super::versions::{SLOT_STATE, State, groups, sum, tags_of};
use crate::chunk::{open_chunk, seal_chunk};
use crate::file::Recipe;
use crate::header::{find_file_key, read_header, seal_header};
use crate::keys::{Keys, Suite, file_keys};
use crate::sha3::kmac256;
use crate::slot::{KEY_WRAP, Slot};
use crate::{TAG_LEN, array};

/// The length of the header of each file of a volume.
pub const BACKING_HEADER_LEN: usize = 4096;
/// The type of the slot with the holes.
const SLOT_HOLES: u8 = 17;
/// The most holes that a file may have.
const MAX_HOLES: usize = 240;
/// The same with rollback protection.
const MAX_HOLES_WITH_STATE: usize = 100;

/// The header of a file of a volume, opened.
#[derive(Clone, Debug)]
pub struct Backing {
    /// The file's keys.
    pub keys: Keys,
    /// The file's id.
    pub file_id: [u8; 16],
    /// Each hole's first chunk and its count.
    pub holes: Vec<(u64, u64)>,
    /// The sums of the chunks, in a volume with rollback protection.
    pub state: Option<State>,
    chunk_log2: u8,
}

/// The id of the file with these keys.
pub fn file_id(keys: &Keys) -> [u8; 16] {
    array(&kmac256(&keys.mac, b"", 128, "phalanx v1 volume file"))
}

/// Opens the header at the beginning of `file`. `None` if the file must be refused, whatever its chunks are.
pub fn read_backing(config: &Config, file: &[u8]) -> Option<Backing> {
    let header = read_header(file).ok()?;
    let count = |wanted: u8| header.slots.iter().filter(|(kind, _)| *kind == wanted).count();
    let slots_are_valid = count(2) == 1
        && count(SLOT_HOLES) <= 1
        && count(0) <= 1
        && count(SLOT_STATE) == usize::from(config.has_versions)
        && header.slots.iter().all(|(kind, _)| [0, 2, SLOT_HOLES, SLOT_STATE].contains(kind));
    if (header.len, header.suite, header.chunk_log2) != (BACKING_HEADER_LEN, config.suite, config.chunk_log2)
        || !slots_are_valid
    {
        return None;
    }
    let file_key = find_file_key(KEY_WRAP, file, &header, &[], &[config.keys.files], &[]).ok()?;
    let holes = match header.slots.iter().find(|(kind, _)| *kind == SLOT_HOLES) {
        Some((_, body)) => read_holes(body)?,
        None => Vec::new(),
    };
    if config.has_versions && holes.len() > MAX_HOLES_WITH_STATE {
        return None;
    }
    let state = match header.slots.iter().find(|(kind, _)| *kind == SLOT_STATE) {
        Some((_, body)) => Some(State::read(body)?),
        None => None,
    };
    let keys = file_keys(&file_key, header.suite);
    Some(Backing { file_id: file_id(&keys), keys, holes, state, chunk_log2: header.chunk_log2 })
}

/// The holes in the body of a slot of type 17. `None` if the slot is malformed.
fn read_holes(body: &[u8]) -> Option<Vec<(u64, u64)>> {
    if !body.len().is_multiple_of(16) || !(1..=MAX_HOLES).contains(&(body.len() / 16)) {
        return None;
    }
    let u64_of = |bytes: &[u8]| u64::from_le_bytes(array(bytes));
    let holes: Vec<(u64, u64)> = body.chunks(16).map(|hole| (u64_of(&hole[..8]), u64_of(&hole[8..]))).collect();
    let mut earliest = 0; // where the next hole may begin
    for (first, count) in &holes {
        if *first < earliest || *count == 0 {
            return None;
        }
        earliest = first.checked_add(*count)?.checked_add(1)?; // a chunk lies between two holes
    }
    Some(holes)
}

impl Backing {
    /// The length of a whole chunk, nonce and tag included.
    pub fn whole(&self) -> usize {
        self.keys.suite.overhead() + (1 << self.chunk_log2)
    }

    /// Where chunk `index` begins in the file (§2.3).
    pub fn start_of(&self, index: u64) -> Option<u64> {
        index.checked_mul(self.whole() as u64)?.checked_add(BACKING_HEADER_LEN as u64)
    }

    /// The number of chunks in a file of `len` bytes, and the length of the last.
    pub fn layout(&self, len: u64) -> Option<(u64, u64)> {
        layout_of(self.keys.suite.overhead(), self.chunk_log2, len)
    }

    /// Whether a chunk lies in a hole.
    pub fn in_hole(&self, index: u64) -> bool {
        self.holes.iter().any(|(first, count)| (*first..first + count).contains(&index))
    }

    /// The plaintext of each chunk, or `None` in the place of a chunk that is not authentic. `None` in place of all if the file
    /// must be refused. This includes a last chunk that is not authentic, because it vouches for the length.
    pub fn open_chunks(&self, file: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
        let (n, _) = self.layout(file.len() as u64)?;
        if self.holes.last().is_some_and(|(first, count)| first + count > n - 1) {
            return None; // a hole contains the last chunk, or lies after it
        }
        if self.state.as_ref().is_some_and(|state| (state.group_log2, state.sums.len() as u64) != groups(n)) {
            return None;
        }
        let chunks: Vec<&[u8]> = file[BACKING_HEADER_LEN..].chunks(self.whole()).collect();
        let open = |(i, chunk): (usize, &&[u8])| {
            let i = i as u64;
            if self.in_hole(i) {
                Some(vec![0; 1 << self.chunk_log2])
            } else {
                self.open_chunk(i, i + 1 == n, chunk).filter(|_| self.has_its_sum(i, &chunks))
            }
        };
        let opened: Vec<Option<Vec<u8>>> = chunks.iter().enumerate().map(open).collect();
        opened.last()?.is_some().then_some(opened)
    }

    /// Whether the tags of a chunk's group give its sum (§10.9).
    fn has_its_sum(&self, index: u64, chunks: &[&[u8]]) -> bool {
        let Some(State { group_log2, sums }) = &self.state else { return true };
        let group = index >> group_log2;
        let tags = tags_of(group, *group_log2, chunks, |index| self.in_hole(index));
        sum(&self.keys, group, &tags) == sums[group as usize]
    }

    /// The plaintext of one chunk. `None` if it is not authentic.
    pub fn open_chunk(&self, index: u64, last: bool, chunk: &[u8]) -> Option<Vec<u8>> {
        open_chunk(&self.keys, self.chunk_log2, index, u8::from(last), chunk)
    }
}

/// The number of chunks in a file of `len` bytes, and the length of the last, nonce and tag included (§2.3). `None` if no file of the
/// volume has this length.
pub fn layout(config: &Config, len: u64) -> Option<(u64, u64)> {
    layout_of(Suite::of(config.suite)?.overhead(), config.chunk_log2, len)
}

fn layout_of(overhead: usize, chunk_log2: u8, len: u64) -> Option<(u64, u64)> {
    let (whole, overhead) = ((overhead + (1 << chunk_log2)) as u64, overhead as u64);
    let behind = len.checked_sub(BACKING_HEADER_LEN as u64)?;
    let n = behind.div_ceil(whole);
    let last = behind.checked_sub(n.checked_sub(1)? * whole)?;
    (last > overhead || (last == overhead && n == 1)).then_some((n, last))
}

/// Writes a file of a volume. `more` are slots in addition to those that every file has, for tests. Holes are zeros in the
/// result.
///
/// # Panics
/// If the slots do not fit into the header, or there are too few nonces.
pub fn seal_backing(
    config: &Config,
    file_key: &[u8; 32],
    holes: &[(u64, u64)],
    more: &[Slot],
    nonces: &[[u8; 16]],
    plaintext: &[u8],
) -> Vec<u8> {
    let mut slots = vec![Slot::Key { key: config.keys.files }];
    if !holes.is_empty() {
        let body =
            holes.iter().flat_map(|(first, count)| [first.to_le_bytes(), count.to_le_bytes()].concat()).collect();
        slots.push(Slot::Raw { kind: SLOT_HOLES, body });
    }
    slots.extend_from_slice(more);
    let mut file = seal_backing_header(config, file_key, slots, BACKING_HEADER_LEN);

    let (keys, chunk_len) = (file_keys(file_key, config.suite), 1 << config.chunk_log2);
    let overhead = Suite::of(config.suite).expect("a known suite").overhead();
    let count = plaintext.len().div_ceil(chunk_len).max(1);
    for i in 0..count {
        let chunk = &plaintext[i * chunk_len..plaintext.len().min((i + 1) * chunk_len)];
        if holes.iter().any(|(first, count)| (*first..first + count).contains(&(i as u64))) {
            assert!(chunk.iter().all(|byte| *byte == 0), "zeros in a hole");
            file.resize(file.len() + overhead + chunk.len(), 0);
        } else {
            let last = u8::from(i + 1 == count);
            file.extend(seal_chunk(&keys, config.chunk_log2, i as u64, last, &nonces[i], chunk));
        }
    }
    file
}

/// A header with these slots and padding, of `len` bytes.
pub(super) fn seal_backing_header(config: &Config, file_key: &[u8; 32], mut slots: Vec<Slot>, len: usize) -> Vec<u8> {
    let recipe = |slots| Recipe {
        file_key: *file_key,
        suite: config.suite,
        chunk_log2: config.chunk_log2,
        slots,
        nonces: Vec::new(),
    };
    let used = seal_header(&recipe(slots.clone())).len();
    slots.push(Slot::Raw { kind: 0, body: vec![0; len - used - 3] });
    let header = seal_header(&recipe(slots));
    assert!(header.len() == len && len > TAG_LEN, "a header of {len} bytes");
    header
}
