//! The journal: transactions written one after another (`docs/format-volumes.md`, section 10.7).

use crate::disk::Disk;
use crate::error::{Result, VolumeError};
use crate::versions::Failed;
use phalanx_core::volume::{HEADER_LEN, VolumeKeys};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use subtle::ConstantTimeEq;

/// The name of the journal in the root folder of a volume.
pub const JOURNAL: &str = "phalanx.journal";

/// The space that a mount reserves for it, in bytes: room for the longest transaction.
pub(crate) const RESERVED: u64 = 40 << 20;
const MAGIC: &[u8; 8] = b"PHXJRNL1";
const HEAD: usize = 40;
const MAC: usize = 32;
const MAX_TABLE: usize = 4 << 20;
pub(crate) const MAX_DATA: usize = 32 << 20;
/// How many bytes are overwritten to end an epoch.
const TRIMMED: usize = 4096;
/// How many bytes are gathered for one write.
const GATHERED: usize = 1 << 20;
/// The length of the nonce and the tag of a chunk in every suite of volumes.
pub(crate) const SEAL: usize = 48;

/// Which stored file a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub inode: u64,
    pub id: [u8; 16],
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A chunk's new content: its number, the nonce and the tag, and where the ciphertext lies in the journal file.
    Chunk { index: u64, seal: [u8; SEAL], at: u64, len: u32 },
    /// The file's new header.
    Header(Box<[u8; HEADER_LEN]>),
    /// The length of the stored file in bytes.
    Length(u64),
    /// These chunks lie in their places already.
    Written(Range<u64>),
    /// The file is new, and its header is in its place: its version. Only in volumes with a table.
    Known([u8; 16]),
    /// The file is about to be removed. Only in volumes with a table.
    Gone,
    /// The file gets one more name. Only in volumes with a table.
    Linked,
}

/// The table of a transaction that is being made.
#[derive(Default)]
pub(crate) struct Table(Vec<u8>);

impl Table {
    fn record(&mut self, kind: u32, owner: Owner) -> &mut Vec<u8> {
        self.0.extend_from_slice(&kind.to_le_bytes());
        self.0.extend_from_slice(&owner.inode.to_le_bytes());
        self.0.extend_from_slice(&owner.id);
        &mut self.0
    }

    /// A chunk whose ciphertext has `len` bytes; `seal` is its nonce and tag.
    pub fn chunk(&mut self, owner: Owner, index: u64, len: usize, seal: &[u8]) {
        let bytes = self.record(1, owner);
        bytes.extend_from_slice(&index.to_le_bytes());
        bytes.extend_from_slice(&(len as u32).to_le_bytes());
        bytes.extend_from_slice(seal);
    }

    pub fn header(&mut self, owner: Owner, header: &[u8]) {
        self.record(2, owner).extend_from_slice(header);
    }

    pub fn length(&mut self, owner: Owner, stored_len: u64) {
        self.record(3, owner).extend_from_slice(&stored_len.to_le_bytes());
    }

    pub fn written(&mut self, owner: Owner, chunks: &Range<u64>) {
        let bytes = self.record(4, owner);
        bytes.extend_from_slice(&chunks.start.to_le_bytes());
        bytes.extend_from_slice(&(chunks.end - chunks.start).to_le_bytes());
    }

    pub fn known(&mut self, owner: Owner, version: &[u8; 16]) {
        self.record(5, owner).extend_from_slice(version);
    }

    pub fn gone(&mut self, owner: Owner) {
        self.record(6, owner);
    }

    pub fn linked(&mut self, owner: Owner) {
        self.record(7, owner);
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The journal of a volume that is mounted for writing.
pub(crate) struct Journal {
    pub file: File,
    at: Mutex<At>,
    /// How many transactions of this mount have been synced. Locked before `at`.
    synced: Mutex<u64>,
    /// Whether a sync has failed. The system reports that only once, and a second sync would succeed.
    has_failed: AtomicBool,
}

struct At {
    epoch: [u8; 16],
    sequence: u64,
    offset: u64,
    /// How many bytes the running commits will write.
    promised: u64,
    /// How many transactions this mount has written.
    written: u64,
    /// When the first transaction of the epoch was written.
    first: Instant,
    last: Instant,
}

impl Journal {
    /// An empty journal. Nothing in the file counts.
    pub fn new(file: File) -> Result<Self> {
        let at = At {
            epoch: random_epoch()?,
            sequence: 0,
            offset: 0,
            promised: 0,
            written: 0,
            first: Instant::now(),
            last: Instant::now(),
        };
        Ok(Self { file, at: Mutex::new(at), synced: Mutex::new(0), has_failed: AtomicBool::new(false) })
    }

    /// The length of a transaction with a table and data of these lengths, in bytes.
    pub fn cost(table_len: usize, data_len: usize) -> u64 {
        (HEAD + table_len + MAC + data_len) as u64
    }

    /// Whether an empty journal has room for transactions of `cost` bytes, one with `data_len` bytes of data.
    pub fn could_hold(cost: u64, data_len: usize) -> bool {
        cost <= RESERVED && data_len <= MAX_DATA
    }

    /// Promises room for transactions of `cost` bytes. Returns `false` if a new epoch has to begin first.
    pub fn promise(&self, cost: u64) -> bool {
        let mut at = self.lock();
        let fits = at.offset + at.promised + cost <= RESERVED;
        if fits {
            at.promised += cost;
        }
        fits
    }

    /// Takes a promise back.
    pub fn release(&self, cost: u64) {
        self.lock().promised -= cost;
    }

    /// Whether more than three quarters are in use.
    pub fn is_filling(&self) -> bool {
        self.lock().offset > RESERVED / 4 * 3
    }

    /// When the last transaction was written, if there is one in this epoch.
    pub fn last(&self) -> Option<Instant> {
        let at = self.lock();
        (at.offset > 0).then_some(at.last)
    }

    /// When the first transaction of this epoch was written, if there is one.
    pub fn first(&self) -> Option<Instant> {
        let at = self.lock();
        (at.offset > 0).then_some(at.first)
    }

    /// How many transactions this mount has written.
    pub fn written(&self) -> u64 {
        self.lock().written
    }

    /// Writes a transaction. Returns how many this mount has written with it.
    ///
    /// # Errors
    /// If it could not be written. A transaction that was written in part does not count.
    pub fn append<'d>(
        &self,
        disk: &dyn Disk,
        keys: &VolumeKeys,
        table: &Table,
        data_len: usize,
        data: impl Iterator<Item = &'d [u8]>,
    ) -> Result<u64> {
        debug_assert!(table.0.len() <= MAX_TABLE && data_len <= MAX_DATA);
        let mut at = self.lock();
        let mut bytes = Vec::with_capacity((HEAD + table.0.len() + MAC + data_len).min(GATHERED + MAX_TABLE));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&at.epoch);
        bytes.extend_from_slice(&at.sequence.to_le_bytes());
        bytes.extend_from_slice(&(table.0.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(data_len as u32).to_le_bytes());
        bytes.extend_from_slice(&table.0);
        let mac = keys.journal_mac(&bytes);
        bytes.extend_from_slice(&mac);
        let mut offset = at.offset;
        let mut write = |bytes: &mut Vec<u8>| {
            disk.write(&self.file, bytes, offset).map_err(|e| VolumeError::io("cannot write the journal", e))?;
            offset += bytes.len() as u64;
            bytes.clear();
            Ok::<_, VolumeError>(())
        };
        for part in data {
            if !bytes.is_empty() && bytes.len() + part.len() > GATHERED {
                write(&mut bytes)?;
            }
            bytes.extend_from_slice(part);
        }
        write(&mut bytes)?;
        if at.offset == 0 {
            at.first = Instant::now();
        }
        at.offset = offset;
        at.sequence += 1;
        at.written += 1;
        at.last = Instant::now();
        Ok(at.written)
    }

    /// Syncs at least the first `count` transactions of this mount. Several callers share one system call.
    ///
    /// # Errors
    /// If the system reports that something was not written.
    pub fn sync(&self, disk: &dyn Disk, count: u64) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *synced < count {
            if self.has_failed.load(Ordering::Acquire) {
                return Err(io::Error::other("an earlier sync has failed"));
            }
            let written = self.written();
            disk.sync_data(&self.file).inspect_err(|_| self.has_failed.store(true, Ordering::Release))?;
            *synced = written;
        }
        Ok(())
    }

    /// Begins a new epoch. All files that the journal names have been synced, and nothing is being written to it.
    ///
    /// # Errors
    /// If it could not be overwritten and synced. [`Failed::Softly`] if there is no space for that, as where each write needs
    /// new space, and the journal is as it was.
    pub fn trim(&self, disk: &dyn Disk) -> Result<(), Failed> {
        let mut synced = self.synced.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut at = self.lock();
        let before = head(&self.file).map_err(|e| Failed::Hard(VolumeError::io("cannot read the journal", e)))?;
        overwrite(disk, &self.file).map_err(|why| match why {
            // What follows would be lost behind a beginning that was overwritten in part.
            VolumeError::Full if head(&self.file).is_ok_and(|head| head == before) => Failed::Softly(why),
            why => Failed::Hard(why),
        })?;
        sync_trimmed(disk, &self.file).map_err(Failed::Hard)?;
        (at.epoch, at.sequence, at.offset) = (random_epoch().map_err(Failed::Hard)?, 0, 0);
        *synced = at.written;
        Ok(())
    }

    /// Begins the epoch that the table of versions names. That is on the disk, so no transaction before it counts any
    /// more, whether it can be overwritten or not.
    pub fn restart(&self, disk: &dyn Disk, epoch: [u8; 16]) {
        let mut synced = self.synced.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut at = self.lock();
        let _ = disk.write(&self.file, &[0; TRIMMED], 0);
        (at.epoch, at.sequence, at.offset) = (epoch, 0, 0);
        *synced = at.written;
    }

    fn lock(&self) -> MutexGuard<'_, At> {
        self.at.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Overwrites the beginning of a journal file and syncs it.
pub(crate) fn trim(disk: &dyn Disk, file: &File) -> Result<()> {
    overwrite(disk, file)?;
    sync_trimmed(disk, file)
}

fn overwrite(disk: &dyn Disk, file: &File) -> Result<()> {
    disk.write(file, &[0; TRIMMED], 0).map_err(|e| VolumeError::io("cannot trim the journal", e))
}

fn sync_trimmed(disk: &dyn Disk, file: &File) -> Result<()> {
    disk.sync_data(file).map_err(|e| VolumeError::io("cannot trim the journal", e))
}

/// The beginning of a journal file, which [`overwrite`] overwrites.
fn head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; TRIMMED];
    let len = file.read_at(&mut head, 0)?;
    head.truncate(len);
    Ok(head)
}

fn random_epoch() -> Result<[u8; 16]> {
    let mut epoch = [0; 16];
    getrandom::fill(&mut epoch).map_err(phalanx_core::Error::Random)?;
    Ok(epoch)
}

/// The records of a transaction.
pub(crate) type Transaction = Vec<(Owner, Record)>;

/// Which transactions of a journal count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epoch {
    /// Those of any epoch, in a volume without a table of versions.
    Any,
    /// Those of the epoch that the table of versions names.
    Only([u8; 16]),
    /// Those of any epoch, in a volume with a table of versions that is made anew.
    Unchecked,
}

/// Reads the transactions of a journal file that are authentic, from the first on. The ciphertexts are not looked at.
///
/// # Errors
/// If the file cannot be read. Nothing that it holds is an error.
pub(crate) fn read(file: &File, keys: &VolumeKeys, which: Epoch) -> Result<Vec<Transaction>> {
    let failed = |e| VolumeError::io("cannot read the journal", e);
    let file_len = file.metadata().map_err(failed)?.len();
    let (mut found, mut offset, mut epoch): (Vec<Transaction>, u64, Option<[u8; 16]>) = (Vec::new(), 0, None);
    if let Epoch::Only(only) = which {
        epoch = Some(only);
    }
    let mut bytes = Vec::new();
    loop {
        if file_len.saturating_sub(offset) < (HEAD + MAC) as u64 {
            return Ok(found);
        }
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, offset).map_err(failed)?;
        let field = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes")) as usize;
        let (table_len, data_len) = (field(32), field(36));
        let its_epoch: [u8; 16] = head[8..24].try_into().expect("16 bytes");
        let goes_on = head[..8] == *MAGIC
            && *epoch.get_or_insert(its_epoch) == its_epoch
            && head[24..32] == (found.len() as u64).to_le_bytes()
            && table_len <= MAX_TABLE
            && data_len <= MAX_DATA
            && Journal::cost(table_len, data_len) <= file_len - offset;
        if !goes_on {
            return Ok(found);
        }
        bytes.clear();
        bytes.extend_from_slice(&head);
        bytes.resize(HEAD + table_len + MAC, 0);
        file.read_exact_at(&mut bytes[HEAD..], offset + HEAD as u64).map_err(failed)?;
        let (signed, mac) = bytes.split_at(HEAD + table_len);
        if !bool::from(keys.journal_mac(signed).ct_eq(mac)) {
            return Ok(found);
        }
        let data = offset + (HEAD + table_len + MAC) as u64;
        let Some(transaction) = parse(&signed[HEAD..], data, data_len, which != Epoch::Any) else { return Ok(found) };
        found.push(transaction);
        offset = data + data_len as u64;
    }
}

/// The records of a table; `None` if it is not in the format.
fn parse(mut table: &[u8], mut at: u64, data_len: usize, has_table: bool) -> Option<Transaction> {
    let end = at + data_len as u64;
    let mut records = Vec::new();
    while !table.is_empty() {
        let kind = u32::from_le_bytes(*take(&mut table)?);
        let owner = Owner { inode: u64::from_le_bytes(*take(&mut table)?), id: *take(&mut table)? };
        let mut number = || Some(u64::from_le_bytes(*take(&mut table)?));
        let record = match kind {
            1 => {
                let index = number()?;
                let len = u32::from_le_bytes(*take(&mut table)?);
                let record = Record::Chunk { index, seal: *take(&mut table)?, at, len };
                at += u64::from(len);
                record
            }
            2 => Record::Header(Box::new(*take(&mut table)?)),
            3 => Record::Length(number()?),
            4 => {
                let first = number()?;
                Record::Written(first..first.saturating_add(number()?))
            }
            5 if has_table => Record::Known(*take(&mut table)?),
            6 if has_table => Record::Gone,
            7 if has_table => Record::Linked,
            _ => return None,
        };
        records.push((owner, record));
    }
    (at == end).then_some(records)
}

fn take<'t, const N: usize>(table: &mut &'t [u8]) -> Option<&'t [u8; N]> {
    let (taken, rest) = table.split_first_chunk()?;
    *table = rest;
    Some(taken)
}
