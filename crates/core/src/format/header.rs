//! The header: `docs/format.md`, section 2.1, read strictly and written.

use crate::format::layout::Layout;
use crate::format::purpose::Purpose;
use crate::format::slot::{self, Slot};
use crate::io::read_full;
use crate::keys::key::FileKeys;
use crate::{Error, Result, Suite};
use std::io::{self, Read};
use subtle::ConstantTimeEq;

const MAGIC: &[u8; 7] = b"PHALANX";
const VERSION: u8 = 1;
/// Everything before the slots.
const FIXED: usize = 18;
const TAG: usize = 32;
/// The shortest header: one slot without a body.
const MIN_LEN: usize = FIXED + slot::PREFIX + TAG;
const MAX_LEN: usize = 65536;
const MAX_SLOTS: usize = 64;
const MAX_PASSWORD_SLOTS: usize = 4;
/// Writers make headers a multiple of this long, in bytes: one page and, mostly, one block of the disk.
const GRANULE: usize = 4096;
/// Headers before a short plaintext, which a page of padding would make much longer, are a multiple of this long, in
/// bytes.
const SMALL_GRANULE: usize = 1024;
/// The longest plaintext that is short in this sense, in bytes.
const SMALL: u64 = 16384;
/// The least padding, in bytes: room for four keys or passwords.
const LEAST_ROOM: usize = 320;

/// A header as it is stored in a file. Its tag can be checked only after a slot has been opened.
#[derive(Clone, Debug)]
pub struct Header {
    bytes: Vec<u8>,
    suite: Suite,
    chunk_log2: u8,
    slots: Vec<Slot>,
}

impl Header {
    /// Writes a header and its tag.
    ///
    /// # Panics
    /// If `chunk_log2` is not in 12 … 24.
    ///
    /// # Errors
    /// [`Error::KeyCount`], [`Error::TooManyPasswords`] or [`Error::HeaderLen`] if the format does not allow such
    /// slots. [`Error::Header`] if a reader would reject or misread one of them: an age file of a length that the
    /// format does not allow, or a [`Slot::Unknown`] of a known type.
    pub fn new(suite: Suite, chunk_log2: u8, slots: Vec<Slot>, keys: &FileKeys) -> Result<Self> {
        assert!((12..=24).contains(&chunk_log2));
        let len = check(&slots)?;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&[0; 4]);
        bytes.push(suite.id());
        bytes.push(chunk_log2);
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&(slots.len() as u16).to_le_bytes());
        slots.iter().for_each(|slot| slot.write(&mut bytes));
        bytes[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        let tag = keys.header_tag(&bytes);
        bytes.extend_from_slice(&tag);
        Ok(Self { bytes, suite, chunk_log2, slots })
    }

    /// Writes the header of a new file, with room for more ways in after these slots.
    ///
    /// # Errors
    /// Those of [`Header::new`].
    pub(crate) fn padded(suite: Suite, chunk_log2: u8, slots: Vec<Slot>, keys: &FileKeys) -> Result<Self> {
        Draft::new(suite, chunk_log2, slots)?.finish(None, keys)
    }

    /// The header of a new file for a plaintext of this length in bytes, if it is known. A short one needs less
    /// padding.
    ///
    /// # Errors
    /// None: the slots fit already.
    pub(crate) fn fitted(self, plaintext_len: Option<u64>, keys: &FileKeys) -> Result<Self> {
        if plaintext_len.is_none_or(|len| len > SMALL) {
            return Ok(self);
        }
        let slots: Vec<_> = self.slots.iter().filter(|slot| !matches!(slot, Slot::Padding(_))).cloned().collect();
        Draft { suite: self.suite, chunk_log2: self.chunk_log2, slots }.finish(plaintext_len, keys)
    }

    /// Writes a header that is `len` bytes long, including padding after these slots. There must be no padding among
    /// them.
    ///
    /// # Errors
    /// Those of [`Header::new`], or [`Error::HeaderRoom`] if the slots do not fit into that length.
    pub(crate) fn with_len(
        suite: Suite,
        chunk_log2: u8,
        mut slots: Vec<Slot>,
        keys: &FileKeys,
        len: usize,
    ) -> Result<Self> {
        match len.checked_sub(len_of(&slots)).ok_or(Error::HeaderRoom)? {
            0 => {}
            _ if slots.len() == MAX_SLOTS => return Err(Error::HeaderRoom),
            // One or two bytes: not even a slot without a body.
            room => slots.push(Slot::Padding(vec![0; room.checked_sub(slot::PREFIX).ok_or(Error::HeaderRoom)?])),
        }
        Self::new(suite, chunk_log2, slots, keys)
    }

    /// Reads the header that `input` begins with, and no further.
    ///
    /// Nothing is trusted before it is checked. At most 64 KiB are read, and the checks are those of the format's
    /// section 5, steps 1 to 3.
    ///
    /// # Errors
    /// [`Error::NotPhalanx`], [`Error::Version`] or [`Error::Header`] if there is no header that can be read,
    /// [`Error::Read`] if reading fails.
    pub fn read(input: &mut impl Read) -> Result<Self> {
        let mut bytes = vec![0; 8];
        match read_full(input, &mut bytes)? {
            8 if bytes[..7] == *MAGIC => {}
            _ => return Err(Error::NotPhalanx),
        }
        if bytes[7] != VERSION {
            return Err(Error::Version(bytes[7]));
        }
        bytes.resize(12, 0);
        if read_full(input, &mut bytes[8..])? < 4 {
            return Err(CUT);
        }
        let len = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")) as usize;
        if !(MIN_LEN..=MAX_LEN).contains(&len) {
            return Err(Error::Header("its length is out of range"));
        }
        bytes.resize(len, 0);
        if read_full(input, &mut bytes[12..])? < len - 12 {
            return Err(CUT);
        }
        Self::parse(bytes)
    }

    /// Checks a header whose magic, version and length are known to be right.
    fn parse(bytes: Vec<u8>) -> Result<Self> {
        let suite = Suite::from_id(bytes[12]).ok_or(Error::Header("unknown suite"))?;
        let chunk_log2 = bytes[13];
        if !(12..=24).contains(&chunk_log2) {
            return Err(Error::Header("chunk size out of range"));
        }
        if bytes[14..16] != [0, 0] {
            return Err(Error::Header("unknown flags"));
        }
        let slot_count = usize::from(u16::from_le_bytes([bytes[16], bytes[17]]));
        if !(1..=MAX_SLOTS).contains(&slot_count) {
            return Err(Error::Header("number of slots out of range"));
        }
        let mut rest = &bytes[FIXED..bytes.len() - TAG];
        let slots = (0..slot_count).map(|_| Slot::parse(&mut rest)).collect::<Result<Vec<_>>>()?;
        if !rest.is_empty() {
            return Err(Error::Header("bytes behind the last slot"));
        }
        if too_many_passwords(&slots) {
            return Err(Error::Header("more than 4 password slots"));
        }
        Ok(Self { bytes, suite, chunk_log2, slots })
    }

    /// Whether the tag is right for the file key that `keys` come from.
    #[must_use]
    pub fn is_authentic(&self, keys: &FileKeys) -> bool {
        let (body, tag) = self.bytes.split_at(self.bytes.len() - TAG);
        keys.header_tag(body).ct_eq(tag).into()
    }

    /// The whole header as it is stored.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The chunk length, as a power of two.
    #[must_use]
    pub fn chunk_log2(&self) -> u8 {
        self.chunk_log2
    }

    /// The layout of a file with this header and a plaintext of `len` bytes.
    ///
    /// # Errors
    /// [`Error::Read`] if the format allows no plaintext of that length.
    pub fn layout_for_plaintext(&self, len: u64) -> Result<Layout> {
        let layout = Layout::for_plaintext(self.bytes.len(), self.suite, self.chunk_log2, len);
        layout.ok_or_else(|| Error::Read(io::ErrorKind::FileTooLarge.into()))
    }

    /// The layout of a file with this header that is `len` bytes long.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Extended`] if no plaintext gives a file of that length.
    pub fn layout_for_file(&self, len: u64) -> Result<Layout> {
        Layout::for_file(self.bytes.len(), self.suite, self.chunk_log2, len)
    }

    /// What the header is for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        purpose_of(&self.slots)
    }

    /// Refuses a header of something else: a reader of files refuses the config of a volume.
    pub(crate) fn check_purpose(&self, purpose: Purpose) -> Result<()> {
        match (self.purpose(), purpose) {
            (Purpose::Volume, Purpose::File) => Err(Error::Volume),
            (Purpose::File, Purpose::Volume) => Err(Error::Header("it is not the config of a volume")),
            _ => Ok(()),
        }
    }

    /// The slots in their order. Everywhere their numbers count from 1, as `phalanx inspect` shows them.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slots with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &Slot)> + Clone {
        (1..).zip(&self.slots)
    }
}

/// A header that is not written yet, because the length of its plaintext decides how long it is. To write it twice would
/// cost as much as to seal a slice.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    suite: Suite,
    chunk_log2: u8,
    slots: Vec<Slot>,
}

impl Draft {
    /// A header with these slots, none of which is padding.
    ///
    /// # Errors
    /// Those of [`Header::new`].
    pub fn new(suite: Suite, chunk_log2: u8, slots: Vec<Slot>) -> Result<Self> {
        check(&slots)?;
        Ok(Self { suite, chunk_log2, slots })
    }

    /// Writes it, with its padding, for a plaintext of this length in bytes, if that is known.
    ///
    /// # Errors
    /// None: the slots fit already.
    pub fn finish(self, plaintext_len: Option<u64>, keys: &FileKeys) -> Result<Header> {
        let is_short = plaintext_len.is_some_and(|len| len <= SMALL);
        let len = padded_len(&self.slots, if is_short { SMALL_GRANULE } else { GRANULE });
        Header::with_len(self.suite, self.chunk_log2, self.slots, keys, len)
    }

    pub fn suite(&self) -> Suite {
        self.suite
    }

    pub fn chunk_log2(&self) -> u8 {
        self.chunk_log2
    }
}

/// Checks that the format allows a header with these slots. Returns its length without further padding.
fn check(slots: &[Slot]) -> Result<usize> {
    if !(1..=MAX_SLOTS).contains(&slots.len()) {
        return Err(Error::KeyCount(slots.len()));
    }
    if too_many_passwords(slots) {
        return Err(Error::TooManyPasswords);
    }
    slots.iter().try_for_each(Slot::check)?;
    let len = len_of(slots);
    if len > MAX_LEN { Err(Error::HeaderLen(len)) } else { Ok(len) }
}

/// What a header with these slots is for.
pub(crate) fn purpose_of(slots: &[Slot]) -> Purpose {
    let is_volume = slots.iter().any(|slot| slot.kind() == Slot::VOLUME);
    if is_volume { Purpose::Volume } else { Purpose::File }
}

/// The length of a header with these slots, in bytes.
fn len_of(slots: &[Slot]) -> usize {
    FIXED + TAG + slots.iter().map(Slot::len).sum::<usize>()
}

/// The length of a new header with these slots, including padding, so that ways in can be added later in place. There
/// is no padding if the format leaves no room for it.
fn padded_len(slots: &[Slot], granule: usize) -> usize {
    let len = len_of(slots);
    let padded = (len + slot::PREFIX + LEAST_ROOM).next_multiple_of(granule);
    if slots.len() < MAX_SLOTS && padded <= MAX_LEN { padded } else { len }
}

fn too_many_passwords(slots: &[Slot]) -> bool {
    slots.iter().filter(|slot| matches!(slot, Slot::Password { .. })).count() > MAX_PASSWORD_SLOTS
}

const CUT: Error = Error::Header("it is cut short");
