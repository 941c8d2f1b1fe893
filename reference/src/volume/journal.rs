//! The journal's transactions (§10.7).

use super::BACKING_HEADER_LEN;
use crate::sha3::kmac256;
use crate::{array, u32_at};

const MAGIC: &[u8; 8] = b"PHXJRNL1";
const TRANSACTION: &str = "phalanx v1 volume transaction";
const MAX_TABLE_LEN: usize = 4194304;
const MAX_DATA_LEN: usize = 33554432;
/// Where the records begin.
const TABLE_AT: usize = 40;

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The epoch, the same in all transactions that count.
    pub epoch: [u8; 16],
    /// The number of transactions before this one in its epoch.
    pub sequence: u64,
    /// The records, in order.
    pub records: Vec<Record>,
}

/// A record of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// A hint where to find the file.
    pub inode: u64,
    /// The file.
    pub file_id: [u8; 16],
    /// The change of the file.
    pub what: What,
}

/// The change that a record describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Kind 1: a chunk.
    Chunk {
        /// The chunk's place in its file.
        index: u64,
        /// Nonce, tag and ciphertext, as in the file.
        chunk: Vec<u8>,
    },
    /// Kind 2: the new header.
    Header(Vec<u8>),
    /// Kind 3: the length of the stored file from now on.
    Length(u64),
    /// Kind 4: chunks that are already at their places.
    Written {
        /// The first of them.
        first: u64,
        /// Their number.
        count: u64,
    },
    /// Kind 5: a new file, of this version (§10.9).
    Known([u8; 16]),
    /// Kind 6: the file is about to be removed (§10.9).
    Gone,
    /// Kind 7: the file gets one more name (§10.9).
    Linked,
}

/// The length of a chunk's nonce and tag. No volume has suite 4.
const HEAD: usize = 48;

/// Writes a transaction.
pub fn seal_transaction(key: &[u8; 32], transaction: &Transaction) -> Vec<u8> {
    let (mut table, mut data) = (Vec::<u8>::new(), Vec::<u8>::new());
    for Record { inode, file_id, what } in &transaction.records {
        let kind: u32 = match what {
            What::Chunk { .. } => 1,
            What::Header(_) => 2,
            What::Length(_) => 3,
            What::Written { .. } => 4,
            What::Known(_) => 5,
            What::Gone => 6,
            What::Linked => 7,
        };
        table.extend(kind.to_le_bytes());
        table.extend(inode.to_le_bytes());
        table.extend(file_id);
        match what {
            What::Chunk { index, chunk } => {
                let (head, ciphertext) = chunk.split_at(HEAD);
                table.extend(index.to_le_bytes());
                table.extend((ciphertext.len() as u32).to_le_bytes());
                table.extend(head);
                data.extend(ciphertext);
            }
            What::Header(header) => table.extend(header),
            What::Length(len) => table.extend(len.to_le_bytes()),
            What::Written { first, count } => table.extend([first.to_le_bytes(), count.to_le_bytes()].concat()),
            What::Known(version) => table.extend(version),
            What::Gone | What::Linked => {}
        }
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(transaction.epoch);
    bytes.extend(transaction.sequence.to_le_bytes());
    bytes.extend((table.len() as u32).to_le_bytes());
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(table);
    bytes.extend(kmac256(key, &bytes, 256, TRANSACTION));
    bytes.extend(data);
    bytes
}

/// The transactions of a journal, each with the offset of its end, as far as the journal alone can tell. The tags of the chunks, which
/// need the keys of the files, are not checked.
pub fn read_journal(key: &[u8; 32], journal: &[u8]) -> Vec<(Transaction, usize)> {
    read_journal_of(key, journal, None)
}

/// The transactions of a journal, in a volume with rollback protection if the epoch that counts is given (§10.9).
pub fn read_journal_of(key: &[u8; 32], journal: &[u8], only: Option<[u8; 16]>) -> Vec<(Transaction, usize)> {
    let mut transactions: Vec<(Transaction, usize)> = Vec::new();
    let mut at = 0;
    while let Some((transaction, len)) = read_transaction(key, &journal[at..], only.is_some()) {
        let first = only.or(transactions.first().map(|(first, _)| first.epoch));
        let epoch = first.unwrap_or(transaction.epoch);
        if transaction.epoch != epoch || transaction.sequence != transactions.len() as u64 {
            break;
        }
        at += len;
        transactions.push((transaction, at));
    }
    transactions
}

/// The transaction at the beginning of `bytes`, and its length. `None` if there is none.
fn read_transaction(key: &[u8; 32], bytes: &[u8], has_versions: bool) -> Option<(Transaction, usize)> {
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let (table_len, data_len) = (u32_at(bytes, 32)? as usize, u32_at(bytes, 36)? as usize);
    if table_len > MAX_TABLE_LEN || data_len > MAX_DATA_LEN {
        return None;
    }
    let (covered, behind) = bytes.split_at_checked(TABLE_AT + table_len)?;
    let (mac, behind) = behind.split_at_checked(32)?;
    let data = behind.get(..data_len)?;
    if kmac256(key, covered, 256, TRANSACTION) != mac {
        return None;
    }
    let epoch = array(&covered[8..24]);
    let sequence = u64::from_le_bytes(array(&covered[24..32]));
    let records = read_records(&covered[TABLE_AT..], data, has_versions)?;
    Some((Transaction { epoch, sequence, records }, TABLE_AT + table_len + 32 + data_len))
}

/// The records of a table. `None` unless both the table and the data end with the last of them.
fn read_records(mut table: &[u8], mut data: &[u8], has_versions: bool) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while !table.is_empty() {
        let kind = u32::from_le_bytes(array(take(&mut table, 4)?));
        let inode = take_u64(&mut table)?;
        let file_id = array(take(&mut table, 16)?);
        let what = match kind {
            1 => {
                let index = take_u64(&mut table)?;
                let len = u32::from_le_bytes(array(take(&mut table, 4)?)) as usize;
                let head = take(&mut table, HEAD)?;
                What::Chunk { index, chunk: [head, take(&mut data, len)?].concat() }
            }
            2 => What::Header(take(&mut table, BACKING_HEADER_LEN)?.to_vec()),
            3 => What::Length(take_u64(&mut table)?),
            4 => What::Written { first: take_u64(&mut table)?, count: take_u64(&mut table)? },
            5 if has_versions => What::Known(array(take(&mut table, 16)?)),
            6 if has_versions => What::Gone,
            7 if has_versions => What::Linked,
            _ => return None,
        };
        records.push(Record { inode, file_id, what });
    }
    data.is_empty().then_some(records)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes, 8).map(|eight| u64::from_le_bytes(array(eight)))
}
