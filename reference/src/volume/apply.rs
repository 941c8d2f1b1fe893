//! Applying a journal (§10.7).

use super::backing::{layout, read_backing};
use super::journal::{Record, What, read_journal_of};
use super::versions::{self, Table};
use super::{BACKING_HEADER_LEN, Backing, Config, Entry, Kind, Stored};
use std::collections::{BTreeMap, BTreeSet};

/// The result of applying a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// How many transactions counted.
    pub transactions: usize,
    /// The chunks that were left out and must be reported.
    pub left_out: Vec<LeftOut>,
}

/// A chunk of the journal that is not authentic at its place: its file and its index.
pub type LeftOut = ([u8; 16], u64);

/// Applies the journal to the files, and overwrites its first transaction with zeros.
pub fn apply_journal(config: &Config, stored: &mut Stored) -> Applied {
    apply_journal_with(config, stored, None)
}

/// Applies the journal. The entries of the table of versions become those that it then has (§10.9).
pub fn apply_journal_with(config: &Config, stored: &mut Stored, table: Option<&mut Table>) -> Applied {
    let journal = stored.file(b"phalanx.journal").unwrap_or_default();
    let epoch = table.as_ref().map(|table| table.epoch());
    let transactions = read_journal_of(&config.keys.journal, journal, epoch);
    let Some((_, first_end)) = transactions.first() else { return Applied::default() };
    let first_end = *first_end;

    // Step 1, for all files that the journal names.
    let all: Vec<&Record> = transactions.iter().flat_map(|(transaction, _)| &transaction.records).collect();
    let names: BTreeSet<[u8; 16]> = all.iter().map(|record| record.file_id).collect();
    let files: BTreeMap<[u8; 16], (u64, Backing)> =
        names.into_iter().filter_map(|id| Some((id, find(config, stored, &all, id)?))).collect();

    // Step 3, its first half: which transactions are whole.
    let is_whole = |record: &Record| match (&record.what, files.get(&record.file_id)) {
        (What::Header(header), _) => read_backing(config, header).is_some_and(|new| new.file_id == record.file_id),
        (What::Length(len), _) => layout(config, *len).is_some(),
        (What::Chunk { index, chunk }, Some((_, file))) => {
            [false, true].iter().any(|last| file.open_chunk(*index, *last, chunk).is_some())
        }
        _ => true,
    };
    let whole: Vec<&Vec<Record>> = transactions
        .iter()
        .map(|(transaction, _)| &transaction.records)
        .take_while(|records| records.iter().all(is_whole))
        .collect();

    // Steps 2, 3 and 4, for each file.
    let mut left_out = Vec::new();
    for (id, (inode, file)) in &files {
        let records = whole.iter().copied().flatten().filter(|record| record.file_id == *id);
        for entry in stored.entries.values_mut().filter(|entry| entry.inode == *inode) {
            if let Kind::File(bytes) = &mut entry.kind {
                let changes = changes(config, file, records.clone());
                left_out.extend(write(file, changes, bytes).into_iter().map(|index| (*id, index)));
            }
        }
    }
    if let Some(table) = table {
        let whole: Vec<&Record> = whole.iter().copied().flatten().collect();
        set_versions(table, stored, &whole, &files);
    }
    left_out.sort_unstable();
    left_out.dedup(); // a file with two names was written twice

    if let Some(journal) = stored.entries.get_mut(&b"phalanx.journal"[..])
        && let Kind::File(bytes) = &mut journal.kind
        && !whole.is_empty()
    {
        bytes[..first_end].fill(0);
    }
    Applied { transactions: whole.len(), left_out }
}

/// The entries of the files that the journal names (§10.9).
fn set_versions(table: &mut Table, stored: &Stored, records: &[&Record], files: &BTreeMap<[u8; 16], (u64, Backing)>) {
    for id in records.iter().map(|record| record.file_id).collect::<BTreeSet<_>>() {
        let of_file = || records.iter().filter(|record| record.file_id == id);
        let is_gone = of_file().any(|record| record.what == What::Gone);
        let hint = of_file().next_back().map(|record| record.inode);
        // A removed file is looked for by its inode alone.
        let found = files.get(&id).map(|(inode, _)| *inode).filter(|inode| !is_gone || Some(*inode) == hint);
        let is_named = |inode: u64| {
            let is_its = |(path, entry): (&Vec<u8>, &Entry)| {
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                let rest = name.strip_prefix(b"phalanx.name.").unwrap_or(name);
                entry.inode == inode && !rest.contains(&b'.')
            };
            stored.entries.iter().any(is_its)
        };
        let mut version = table.entries.get(&id).copied();
        for record in of_file() {
            let flags = version.map_or(0, |version| version[15]);
            let mut new = match &record.what {
                What::Header(header) => versions::version(header),
                What::Known(version) => *version,
                What::Linked => match version {
                    Some(version) => [&version[..15], &[1]].concat().try_into().expect("16 bytes"),
                    None => continue,
                },
                _ => continue,
            };
            new[15] |= flags;
            version = Some(new);
        }
        match (found.map(is_named), version) {
            (Some(true), Some(version)) => _ = table.entries.insert(id, version),
            (Some(false), _) => _ = table.entries.remove(&id),
            (None, _) if is_gone => _ = table.entries.remove(&id),
            // It may come back, but only as it was last.
            (None, Some(version)) if table.entries.contains_key(&id) => _ = table.entries.insert(id, version),
            _ => {}
        }
    }
}

/// Where the key slot lies in a header. All headers of a file have it there, so a partly written header has it too.
const KEY_SLOT: std::ops::Range<usize> = 18..77;

/// Step 1: the inode number of a file, and its header. `None` if the file is gone.
fn find(config: &Config, stored: &Stored, records: &[&Record], id: [u8; 16]) -> Option<(u64, Backing)> {
    let of_file = || records.iter().filter(|record| record.file_id == id);
    let hint = of_file().next_back()?.inode;
    let in_place: Vec<(u64, Option<Backing>)> = stored
        .entries
        .values()
        .filter_map(|entry| match &entry.kind {
            Kind::File(bytes) => Some((entry.inode, read_backing(config, bytes))),
            _ => None,
        })
        .collect();
    let has_id = |backing: &Option<Backing>| backing.as_ref().is_some_and(|backing| backing.file_id == id);

    let by_hint = in_place.iter().find(|(inode, backing)| *inode == hint && has_id(backing));
    let by_looking = || in_place.iter().find(|(_, backing)| has_id(backing));
    if let Some((inode, backing)) = by_hint.or_else(by_looking) {
        return Some((*inode, backing.clone()?));
    }
    // The header in place may have been partly written when a run was killed. Then there is a header record. If records of
    // several files name this inode, the last one is right: the inode belonged to another file before.
    in_place.iter().find(|(inode, backing)| *inode == hint && backing.is_none())?;
    let slot_in_place = stored.entries.values().find_map(|entry| match &entry.kind {
        Kind::File(bytes) if entry.inode == hint && bytes.len() >= BACKING_HEADER_LEN => Some(&bytes[KEY_SLOT]),
        _ => None,
    })?;
    let is_there = |id: [u8; 16]| in_place.iter().any(|(_, backing)| backing.as_ref().is_some_and(|b| b.file_id == id));
    let last_hint = |id: [u8; 16]| records.iter().rev().find(|record| record.file_id == id).map(|record| record.inode);
    let (last, header) = records.iter().rev().find_map(|record| match &record.what {
        What::Header(header)
            if last_hint(record.file_id) == Some(hint)
                && !is_there(record.file_id)
                && header[KEY_SLOT] == *slot_in_place =>
        {
            let header = read_backing(config, header).filter(|backing| backing.file_id == record.file_id)?;
            Some((record.file_id, header))
        }
        _ => None,
    })?;
    (last == id).then_some((hint, header))
}

/// The combined changes of a file's records.
#[derive(Default)]
struct Changes<'a> {
    header: Option<&'a [u8]>,
    len: Option<u64>,
    chunks: BTreeMap<u64, &'a [u8]>,
}

/// Step 2.
fn changes<'a>(config: &Config, file: &Backing, records: impl Iterator<Item = &'a Record>) -> Changes<'a> {
    let mut changes = Changes::default();
    for record in records {
        match &record.what {
            What::Header(header) => changes.header = Some(header),
            What::Chunk { index, chunk } => _ = changes.chunks.insert(*index, chunk),
            What::Length(len) => {
                changes.len = Some(*len);
                changes.chunks.retain(|index, _| file.start_of(*index).is_some_and(|start| start < *len));
            }
            What::Written { first, count } => {
                changes.chunks.retain(|index, _| index.checked_sub(*first).is_none_or(|behind| behind >= *count));
            }
            What::Known(_) | What::Gone | What::Linked => {}
        }
    }
    let header = changes.header.and_then(|header| read_backing(config, header));
    let holes = header.as_ref().unwrap_or(file);
    changes.chunks.retain(|index, _| !holes.in_hole(*index));
    changes
}

/// Step 3, its second half, and step 4. Returns the chunks that were left out.
fn write(file: &Backing, changes: Changes, bytes: &mut Vec<u8>) -> Vec<u64> {
    let len = changes.len.unwrap_or(bytes.len() as u64);
    bytes.resize(usize::try_from(len).expect("a file that fits into memory"), 0);
    if let Some(header) = changes.header {
        bytes[..BACKING_HEADER_LEN].copy_from_slice(header);
    }
    let layout = file.layout(len);
    let mut left_out = Vec::new();
    for (index, chunk) in changes.chunks {
        let fits = layout.is_some_and(|(n, last_len)| {
            let is_last = index == n - 1;
            let wanted = if is_last { last_len } else { file.whole() as u64 };
            index < n && chunk.len() as u64 == wanted && file.open_chunk(index, is_last, chunk).is_some()
        });
        if fits {
            let start = file.start_of(index).expect("a chunk of the file") as usize;
            bytes[start..start + chunk.len()].copy_from_slice(chunk);
        } else {
            left_out.push(index);
        }
    }
    left_out
}
