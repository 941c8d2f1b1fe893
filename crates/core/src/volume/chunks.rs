//! Sealing and opening single chunks of a file in memory, in any order, each with its nonce and tag before it.

use crate::Result;
use crate::file::records::{self, Memory};
use crate::format::header::Header;
use crate::keys::key::FileKeys;
use crate::roster::Roster;
use crate::seam::{Unit, Verdicts};

/// The chunks of one file.
pub struct Chunks(records::Records);

/// Which chunk of its file a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The chunk's number, from 0.
    pub index: u64,
    /// Whether it is the file's last.
    pub last: bool,
    /// The length of its plaintext in bytes.
    pub len: usize,
}

/// Memory for records in their stored form, one after another: nonce, tag, and a chunk's bytes. Every record but the
/// last has a whole chunk, or room for one. Wiped on drop.
pub struct Records {
    memory: Memory,
    record_len: usize,
    overhead: usize,
}

impl Records {
    /// The stored bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// The stored bytes, to be read into.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// The stored bytes of one record whose chunk has `len` bytes.
    #[must_use]
    pub fn record(&self, place: usize, len: usize) -> &[u8] {
        &self.bytes()[place * self.record_len..][..self.overhead + len]
    }

    /// The bytes of one record's chunk.
    #[must_use]
    pub fn chunk(&self, place: usize, len: usize) -> &[u8] {
        &self.bytes()[place * self.record_len + self.overhead..][..len]
    }

    /// The bytes of one record's chunk, to be written to.
    #[must_use]
    pub fn chunk_mut(&mut self, place: usize, len: usize) -> &mut [u8] {
        &mut self.memory.bytes_mut()[place * self.record_len + self.overhead..][..len]
    }
}

impl Chunks {
    /// The chunks of the file with this header.
    #[must_use]
    pub fn new(header: &Header, keys: &FileKeys) -> Self {
        Self(records::Records::new(header, keys))
    }

    /// The length of a whole chunk in bytes of plaintext.
    #[must_use]
    pub fn chunk_len(&self) -> usize {
        self.0.chunk_len
    }

    /// The length of nonce and tag in bytes.
    #[must_use]
    pub fn overhead(&self) -> usize {
        self.0.suite.overhead()
    }

    /// Room for `count` records. The last one has a chunk of `last_len` bytes.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) if there is not enough memory.
    pub fn records(&self, count: usize, last_len: usize) -> Result<Records> {
        let (record_len, overhead) = (self.0.record_len(), self.overhead());
        let len = match count {
            0 => 0,
            _ => (count - 1) * record_len + overhead + last_len,
        };
        Ok(Records { memory: Memory::new(len, overhead)?, record_len, overhead })
    }

    /// Seals records in place, each under a new nonce.
    ///
    /// # Errors
    /// [`Error::Random`](crate::Error::Random) or an engine's fault: the records are then useless.
    pub fn seal(&self, roster: &Roster, records: &mut Records, places: &[Place]) -> Result<()> {
        let member = roster.first(self.0.suite)?;
        self.0.seal(roster, member, &mut records.memory, self.units(places))
    }

    /// Opens records in place. Those that are not authentic are wiped, and named by the verdicts.
    ///
    /// # Errors
    /// An engine's fault: the records are then unchanged.
    pub fn open(&self, roster: &Roster, records: &mut Records, places: &[Place]) -> Result<Verdicts> {
        let member = roster.first(self.0.suite)?;
        let verdicts = self.0.open_each(roster, member, &mut records.memory, self.units(places))?;
        Ok(verdicts)
    }

    fn units(&self, places: &[Place]) -> Vec<Unit> {
        let unit = |(at, place): (usize, &Place)| self.0.unit(at, place.index, place.last, place.len);
        places.iter().enumerate().map(unit).collect()
    }
}
