//! The batches of the table of versions as they are stored (`docs/format-versions.md`).

use crate::error::{Result, VolumeError};
use phalanx_core::volume::{HEADER_LEN, VolumeKeys};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use subtle::ConstantTimeEq;

/// A file's id.
pub(crate) type Id = [u8; 16];

/// What the table has of a file: the beginning of its header's tag, and a byte of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub [u8; 16]);

/// How much of the header's tag it has.
const TAG: usize = 15;
/// The flag of a file that has or had several names, so that the removal of one may not be that of the file.
const LINKED: u8 = 1;

impl Version {
    /// That of a file with this header.
    pub fn of(header: &[u8]) -> Self {
        let mut version = [0; 16];
        version[..TAG].copy_from_slice(&header[HEADER_LEN - 32..][..TAG]);
        Self(version)
    }

    /// The same, with the flags that the file had before.
    pub fn after(self, before: Option<Self>) -> Self {
        let mut version = self.0;
        version[TAG] |= before.map_or(0, |before| before.0[TAG]);
        Self(version)
    }

    /// The same, of a file with several names.
    pub fn linked(self) -> Self {
        let mut version = self.0;
        version[TAG] |= LINKED;
        Self(version)
    }

    pub fn is_linked(self) -> bool {
        self.0[TAG] & LINKED != 0
    }

    /// Whether both are of the same header.
    pub fn is_of(self, other: Self) -> bool {
        self.0[..TAG] == other.0[..TAG]
    }
}

const MAGIC: &[u8; 8] = b"PHXVERS1";
pub(super) const HEAD: usize = 40;
pub(super) const MAC: usize = 32;
const SET: usize = 32;
const REMOVED: usize = 16;
/// How many entries a batch sets or removes at most.
pub(super) const MOST: usize = 1 << 20;

/// The table as its batches give it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub entries: HashMap<Id, Version>,
    /// The generation and the MAC of the last batch.
    pub generation: u64,
    pub mac: [u8; MAC],
    /// Where the last batch ends.
    pub end: u64,
}

/// The length of a batch in bytes.
pub(super) fn len_of(set: usize, removed: usize) -> usize {
    HEAD + SET * set + REMOVED * removed + MAC
}

/// The bytes of a batch, and its MAC.
pub(super) fn seal(
    keys: &VolumeKeys,
    before: &[u8; MAC],
    generation: u64,
    set: &[(Id, Version)],
    removed: &[Id],
) -> Result<(Vec<u8>, [u8; MAC])> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(phalanx_core::Error::Random)?;
    let mut bytes = Vec::with_capacity(len_of(set.len(), removed.len()));
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(&nonce);
    bytes.extend_from_slice(&(set.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(removed.len() as u32).to_le_bytes());
    for (id, version) in set {
        bytes.extend_from_slice(id);
        bytes.extend_from_slice(&version.0);
    }
    removed.iter().for_each(|id| bytes.extend_from_slice(id));
    let mac = keys.batch_mac(before, &bytes);
    bytes.extend_from_slice(&mac);
    Ok((bytes, mac))
}

/// The lengths that the head of a batch gives: how many entries it sets and how many it removes.
fn lengths(head: &[u8; HEAD]) -> Option<(usize, usize)> {
    let field = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes")) as usize;
    let (set, removed) = (field(32), field(36));
    (head[..8] == *MAGIC && set <= MOST && removed <= MOST).then_some((set, removed))
}

/// Reads a table. Also returns whether it goes on after its last authentic batch with something that is no batch that
/// was being appended when the run was killed.
///
/// # Errors
/// If it cannot be read. Nothing that it holds is an error.
pub(crate) fn read(file: &File, keys: &VolumeKeys) -> Result<(Found, bool)> {
    let failed = |e| VolumeError::io("cannot read the table of versions", e);
    let len = file.metadata().map_err(failed)?.len();
    let mut found = Found::default();
    let mut bytes = Vec::new();
    while len - found.end >= HEAD as u64 {
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, found.end).map_err(failed)?;
        let Some((set, removed)) = lengths(&head) else { break };
        let batch_len = len_of(set, removed);
        match (len - found.end).checked_sub(batch_len as u64) {
            None => break,
            Some(left) => {
                bytes.resize(batch_len, 0);
                file.read_exact_at(&mut bytes, found.end).map_err(failed)?;
                if !take(&mut found, keys, &bytes, set) {
                    return Ok((found, left > 0));
                }
            }
        }
    }
    Ok((found, false))
}

/// Applies a batch to what was found before it, if it goes on from that and is authentic.
fn take(found: &mut Found, keys: &VolumeKeys, batch: &[u8], set: usize) -> bool {
    let (signed, mac) = batch.split_at(batch.len() - MAC);
    let generation = u64::from_le_bytes(signed[8..16].try_into().expect("eight bytes"));
    let goes_on = found.end == 0 || found.generation.checked_add(1) == Some(generation);
    let mac: [u8; MAC] = mac.try_into().expect("the rest has its length");
    if !goes_on || !bool::from(keys.batch_mac(&found.mac, signed).ct_eq(&mac)) {
        return false;
    }
    let (sets, removed) = signed[HEAD..].split_at(SET * set);
    for entry in sets.chunks_exact(SET) {
        let (id, version) = entry.split_at(16);
        found.entries.insert(id.try_into().expect("16 bytes"), Version(version.try_into().expect("16 bytes")));
    }
    for id in removed.chunks_exact(REMOVED) {
        found.entries.remove(id);
    }
    (found.generation, found.mac) = (generation, mac);
    found.end += batch.len() as u64;
    true
}

/// The batches of a whole new table, the last of which has at least this generation.
pub(super) fn whole(keys: &VolumeKeys, entries: &HashMap<Id, Version>, generation: u64) -> Result<(Vec<u8>, Found)> {
    let mut sorted: Vec<_> = entries.iter().map(|(id, version)| (*id, *version)).collect();
    sorted.sort_unstable();
    let (mut bytes, mut found) = (Vec::new(), Found { generation: generation - 1, ..Found::default() });
    let mut parts = sorted.chunks(MOST).peekable();
    loop {
        let part = parts.next().unwrap_or(&[]);
        let (batch, mac) = seal(keys, &found.mac, found.generation + 1, part, &[])?;
        bytes.extend_from_slice(&batch);
        found = Found { generation: found.generation + 1, mac, end: bytes.len() as u64, ..found };
        if parts.peek().is_none() {
            return Ok((bytes, found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::volume::Config;
    use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
    use std::io::Write;

    fn config() -> Config {
        let recipient = Recipient::key(&SecretKey::random().unwrap());
        Config::create(Suite::default(), ChunkSize::new(4096).unwrap(), &[recipient]).unwrap().1
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// A table with one base batch and two more, and where each ends.
    fn table(keys: &VolumeKeys) -> (Vec<u8>, Vec<usize>) {
        let entries = [([1; 16], Version([11; 16])), ([2; 16], Version([12; 16]))].into();
        let (mut bytes, base) = whole(keys, &entries, 5).unwrap();
        let mut ends = vec![bytes.len()];
        let mut mac = base.mac;
        for (generation, set, removed) in [(6, vec![([1; 16], Version([21; 16]))], vec![]), (7, vec![], vec![[2; 16]])]
        {
            let batch = seal(keys, &mac, generation, &set, &removed).unwrap();
            (mac, _) = (batch.1, bytes.extend_from_slice(&batch.0));
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_table_is_read_as_far_as_it_is_whole() {
        let config = config();
        let (bytes, ends) = table(config.keys());
        let (found, is_altered) = read(&file(&bytes), config.keys()).unwrap();
        assert_eq!((found.generation, found.end as usize, is_altered), (7, bytes.len(), false));
        assert_eq!(found.entries, [([1; 16], Version([21; 16]))].into());
        for len in 0..bytes.len() {
            let (found, is_altered) = read(&file(&bytes[..len]), config.keys()).unwrap();
            assert!(!is_altered, "{len}");
            let whole = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(found.end as usize, if whole == 0 { 0 } else { ends[whole - 1] }, "{len}");
        }
    }

    #[test]
    fn an_altered_batch_ends_the_table_and_is_told_from_a_torn_one() {
        let config = config();
        let (bytes, ends) = table(config.keys());
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            let (found, is_altered) = read(&file(&altered), config.keys()).unwrap();
            let batch = ends.iter().filter(|end| **end <= at).count();
            assert_eq!(found.end as usize, if batch == 0 { 0 } else { ends[batch - 1] }, "{at}");
            // Only the last one may have been torn. Lengths and the magic cannot be told from a torn end.
            let start = if batch == 0 { 0 } else { ends[batch - 1] };
            let is_head = at < start + 8 || (start + 32..start + 40).contains(&at);
            assert!(is_head || is_altered == (batch < 2), "{at}");
        }
    }

    #[test]
    fn batches_belong_to_one_place_in_one_table_of_one_volume() {
        let config = config();
        let (bytes, ends) = table(config.keys());
        let tail = [&bytes[..ends[0]], &bytes[ends[1]..]].concat();
        assert_eq!(read(&file(&tail), config.keys()).unwrap().0.generation, 5);
        assert_eq!(read(&file(&bytes[ends[0]..]), config.keys()).unwrap().0.end, 0);
        let other = Config::create(
            Suite::default(),
            ChunkSize::new(4096).unwrap(),
            &[Recipient::key(&SecretKey::random().unwrap())],
        );
        assert_eq!(read(&file(&bytes), other.unwrap().1.keys()).unwrap().0.end, 0);
        // The same content has another MAC each time, so no epoch of the journal comes twice.
        assert_ne!(table(config.keys()).0[ends[0] - MAC..ends[0]], bytes[ends[0] - MAC..ends[0]]);
    }

    #[test]
    fn a_large_table_has_several_batches() {
        let config = config();
        let entries: HashMap<Id, Version> =
            (0..MOST as u128 + 3).map(|i| (i.to_le_bytes(), Version((i + 1).to_le_bytes()))).collect();
        let (bytes, made) = whole(config.keys(), &entries, 9).unwrap();
        let (found, is_altered) = read(&file(&bytes), config.keys()).unwrap();
        assert!(!is_altered);
        assert_eq!((found.generation, found.mac, found.end), (10, made.mac, made.end));
        assert_eq!(found.entries.len(), entries.len());
    }
}
