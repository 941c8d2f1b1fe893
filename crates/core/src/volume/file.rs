//! The headers of a volume's files: `docs/format-volumes.md`, section 10.6.

use crate::format::chunk_size::ChunkSize;
use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::keys::key::{FileKeys, SecretKey};
use crate::volume::config::Config;
use crate::volume::keys::VolumeKeys;
use crate::volume::state::State;
use crate::{Error, Result};
use std::ops::Range;

/// The length of the header of each file, in bytes.
pub const HEADER_LEN: usize = 4096;
/// How many holes a file lists at most, in a volume without other slots in the headers.
pub const MAX_HOLES: usize = 240;
/// How many beside the sums of its chunks.
const MAX_HOLES_WITH_STATE: usize = 100;

/// The holes of a file: ranges of chunks that were never written, in ascending order, with a chunk or more between two
/// of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holes(Vec<Range<u64>>);

impl Holes {
    /// Takes ranges. `None` if the format does not allow them, or if they are more than [`MAX_HOLES`].
    #[must_use]
    pub fn new(ranges: Vec<Range<u64>>) -> Option<Self> {
        let is_ascending = ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
        let is_lawful = ranges.len() <= MAX_HOLES && is_ascending && ranges.iter().all(|range| !range.is_empty());
        is_lawful.then_some(Self(ranges))
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// The hole that a chunk lies in.
    #[must_use]
    pub fn around(&self, chunk: u64) -> Option<Range<u64>> {
        let place = self.0.partition_point(|range| range.end <= chunk);
        self.0.get(place).filter(|range| range.contains(&chunk)).cloned()
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        let range = |bytes: &[u8]| {
            let first = number(&bytes[..8])?;
            Some(first..first.checked_add(number(&bytes[8..])?)?)
        };
        if body.is_empty() || !body.len().is_multiple_of(16) {
            return None;
        }
        Self::new(body.chunks(16).map(range).collect::<Option<_>>()?)
    }

    fn slot(&self) -> Option<Slot> {
        let mut body = Vec::with_capacity(16 * self.0.len());
        for range in &self.0 {
            body.extend_from_slice(&range.start.to_le_bytes());
            body.extend_from_slice(&(range.end - range.start).to_le_bytes());
        }
        (!body.is_empty()).then_some(Slot::Unknown { kind: Slot::HOLES, body })
    }
}

impl Config {
    /// How many holes a file of this volume lists at most.
    #[must_use]
    pub fn max_holes(&self) -> usize {
        if self.features().rollback_protection { MAX_HOLES_WITH_STATE } else { MAX_HOLES }
    }

    /// The header and the keys of a new file, under a new file key. The header has no state yet.
    ///
    /// # Errors
    /// [`Error::Random`] if the system gives no random bytes.
    pub fn new_file(&self) -> Result<(Header, FileKeys)> {
        let file_key = SecretKey::random()?;
        let keys = file_key.file_keys(self.suite());
        let VolumeKeys { files_id: id, files_kek, .. } = self.keys();
        let slot = Slot::Key { id: *id, wrapped: files_kek.wrap(&file_key) };
        Ok((self.header(vec![slot], &keys)?, keys))
    }

    /// Opens the header of one of the volume's files by the volume's own key.
    ///
    /// # Errors
    /// [`Error::Header`] if it is not like the headers of a volume's files, [`Error::WrongKey`] if it belongs to
    /// another volume.
    pub fn open_file(&self, header: &Header) -> Result<(FileKeys, Holes, Option<State>)> {
        if header.bytes().len() != HEADER_LEN || (header.suite(), header.chunk_log2()) != self.shape() {
            return Err(Error::Header("not as in the files of this volume"));
        }
        let (mut wrapped, mut holes, mut state, mut padding) = (None, None, None, false);
        let has_state = self.features().rollback_protection;
        for slot in header.slots() {
            let is_first = match slot {
                Slot::Key { id, wrapped: key } if *id == self.keys().files_id => wrapped.replace(key).is_none(),
                Slot::Unknown { kind: Slot::HOLES, body } => holes.replace(body).is_none(),
                Slot::Unknown { kind: Slot::STATE, body } if has_state => state.replace(body).is_none(),
                Slot::Padding(_) => !std::mem::replace(&mut padding, true),
                _ => false,
            };
            if !is_first {
                return Err(Error::Header("not the slots of a file of this volume"));
            }
        }
        let wrapped = wrapped.ok_or(Error::Header("not the slots of a file of this volume"))?;
        let file_key = self.keys().files_kek.unwrap(wrapped).ok_or(Error::WrongKey)?;
        let keys = file_key.file_keys(header.suite());
        if !header.is_authentic(&keys) {
            return Err(Error::WrongKey);
        }
        let holes = holes.map_or(Some(Holes::default()), |body| Holes::parse(body));
        let holes = holes.filter(|holes| holes.ranges().len() <= self.max_holes());
        let holes = holes.ok_or(Error::Header("a malformed list of holes"))?;
        let state = match (state, has_state) {
            (Some(body), _) => Some(State::parse(body).ok_or(Error::Header("malformed sums of its chunks"))?),
            (None, true) => return Err(Error::Header("no sums of its chunks")),
            (None, false) => None,
        };
        Ok((keys, holes, state))
    }

    /// The header of the same file with other holes and another state.
    ///
    /// # Errors
    /// None, for a header that [`Config::open_file`] has opened.
    pub fn with(&self, header: &Header, keys: &FileKeys, holes: &Holes, state: Option<&State>) -> Result<Header> {
        let key = header.slots().iter().filter(|slot| matches!(slot, Slot::Key { .. })).cloned();
        self.header(key.chain(holes.slot()).chain(state.map(State::slot)).collect(), keys)
    }

    fn header(&self, slots: Vec<Slot>, keys: &FileKeys) -> Result<Header> {
        let (suite, chunk_log2) = self.shape();
        Header::with_len(suite, chunk_log2, slots, keys, HEADER_LEN)
    }

    fn shape(&self) -> (crate::Suite, u8) {
        let ChunkSize(chunk_log2) = self.chunk_size();
        (self.suite(), chunk_log2)
    }
}
