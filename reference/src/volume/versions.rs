//! Rollback protection (§10.9): the state slot of files, and the table of versions.

use super::VolumeKeys;
use super::backing::BACKING_HEADER_LEN;
use crate::keys::Keys;
use crate::sha3::kmac256;
use crate::slot::Slot;
use crate::{array, u32_at};
use std::collections::BTreeMap;

/// The type of the slot with the sums of a file's chunks.
pub(super) const SLOT_STATE: u8 = 18;
const MAX_GROUPS: u64 = 128;
const MAGIC: &[u8; 8] = b"PHXVERS1";
const MAX_ENTRIES: usize = 1048576;
const HEAD_LEN: usize = 40;
const MAC_LEN: usize = 32;

/// The body of a slot of type 18.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// A group has 2^group_log2 chunks.
    pub group_log2: u8,
    /// The sum of each group.
    pub sums: Vec<[u8; 16]>,
}

/// group_log2 and the number of groups of a file with n chunks.
pub fn groups(n: u64) -> (u8, u64) {
    let count = |log2: u8| n.div_ceil(1 << log2);
    let log2 = (0..=52).find(|log2| count(*log2) <= MAX_GROUPS).expect("a lawful number of chunks");
    (log2, count(log2))
}

/// The sum of a group whose chunks outside holes have these tags.
pub fn sum(keys: &Keys, group: u64, tags: &[u8]) -> [u8; 16] {
    array(&kmac256(&keys.mac, &[&group.to_le_bytes()[..], tags].concat(), 128, "phalanx v1 volume group"))
}

/// The tags of the chunks of a group that lie in no hole, given all chunks of the file as they are stored.
pub fn tags_of(group: u64, group_log2: u8, chunks: &[&[u8]], in_hole: impl Fn(u64) -> bool) -> Vec<u8> {
    let first = group << group_log2;
    let of_group = (first..chunks.len() as u64).take(1 << group_log2);
    of_group.filter(|index| !in_hole(*index)).flat_map(|index| chunks[index as usize][16..48].to_vec()).collect()
}

impl State {
    /// The state of a file with these chunks.
    pub fn of(keys: &Keys, chunks: &[&[u8]], in_hole: impl Fn(u64) -> bool) -> Self {
        let (group_log2, count) = groups(chunks.len() as u64);
        let sums = (0..count).map(|group| sum(keys, group, &tags_of(group, group_log2, chunks, &in_hole))).collect();
        Self { group_log2, sums }
    }

    /// The slot.
    pub fn slot(&self) -> Slot {
        Slot::Raw { kind: SLOT_STATE, body: [&[self.group_log2][..], &self.sums.concat()].concat() }
    }

    /// Reads the body of a slot. `None` if it is malformed.
    pub fn read(body: &[u8]) -> Option<Self> {
        let (group_log2, sums) = body.split_first()?;
        let lawful =
            *group_log2 < 64 && sums.len().is_multiple_of(16) && (1..=MAX_GROUPS as usize).contains(&(sums.len() / 16));
        lawful.then(|| Self { group_log2: *group_log2, sums: sums.chunks(16).map(array).collect() })
    }
}

/// The table of versions as far as it is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The version of each file.
    pub entries: BTreeMap<[u8; 16], [u8; 16]>,
    /// The generation of the last batch.
    pub generation: u64,
    /// The MAC of the last batch.
    pub mac: [u8; 32],
    /// Where the last batch ends. What follows means nothing.
    pub end: usize,
}

/// The version of a file with this header.
pub fn version(header: &[u8]) -> [u8; 16] {
    let mut version = [0; 16];
    version[..15].copy_from_slice(&header[BACKING_HEADER_LEN - 32..][..15]);
    version
}

/// Whether two versions are of the same header.
pub fn is_same(a: &[u8; 16], b: &[u8; 16]) -> bool {
    a[..15] == b[..15]
}

impl Table {
    /// The id of the journal's epoch.
    pub fn epoch(&self) -> [u8; 16] {
        array(&self.mac[..16])
    }

    /// Writes the next batch.
    pub fn seal(
        &self,
        keys: &VolumeKeys,
        random: &[u8; 16],
        set: &[([u8; 16], [u8; 16])],
        removed: &[[u8; 16]],
    ) -> Vec<u8> {
        let mut batch = MAGIC.to_vec();
        batch.extend((self.generation + 1).to_le_bytes());
        batch.extend(random);
        batch.extend((set.len() as u32).to_le_bytes());
        batch.extend((removed.len() as u32).to_le_bytes());
        batch.extend(set.iter().flat_map(|(id, version)| [id, version]).flatten());
        batch.extend(removed.iter().flatten());
        let mac = mac(keys, &self.mac, &batch);
        batch.extend(mac);
        batch
    }

    /// Reads a table. `None` if the volume must be refused.
    pub fn read(keys: &VolumeKeys, bytes: &[u8]) -> Option<Self> {
        let mut table = Self::default();
        let mut at = 0;
        while let Some(len) = batch_len(&bytes[at..]).filter(|len| *len <= bytes.len() - at) {
            let (covered, its_mac) = bytes[at..at + len].split_at(len - MAC_LEN);
            let generation = u64::from_le_bytes(array(&covered[8..16]));
            let goes_on = at == 0 || Some(generation) == table.generation.checked_add(1);
            if !goes_on || mac(keys, &table.mac, covered) != *its_mac {
                // Only the last batch can be torn.
                return (at > 0 && at + len == bytes.len()).then_some(table);
            }
            let set = u32_at(covered, 32)? as usize;
            let (set, removed) = covered[HEAD_LEN..].split_at(32 * set);
            table.entries.extend(set.chunks(32).map(|entry| (array(&entry[..16]), array(&entry[16..]))));
            removed.chunks(16).for_each(|id| _ = table.entries.remove(&array::<16>(id)));
            at += len;
            (table.generation, table.mac, table.end) = (generation, array(its_mac), at);
        }
        (at > 0).then_some(table)
    }
}

/// The length of the batch at the beginning of `bytes`, by its head. `None` if that is none.
fn batch_len(bytes: &[u8]) -> Option<usize> {
    let (set, removed) = (u32_at(bytes, 32)? as usize, u32_at(bytes, 36)? as usize);
    let is_lawful = bytes.starts_with(MAGIC) && set <= MAX_ENTRIES && removed <= MAX_ENTRIES;
    is_lawful.then_some(HEAD_LEN + 32 * set + 16 * removed + MAC_LEN)
}

fn mac(keys: &VolumeKeys, before: &[u8; 32], batch: &[u8]) -> [u8; 32] {
    array(&kmac256(&keys.versions, &[before, batch].concat(), 256, "phalanx v1 volume batch"))
}
