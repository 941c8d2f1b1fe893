//! Slots, the ways into a file: `docs/format.md`, section 4. Made for keys and passwords, and opened by them.

use crate::header::Header;
use crate::key::{FileKeys, Kdf, KeyId, Password, SecretKey, WRAPPED, WrappingKey};
use crate::{Error, Result, Suite};
use std::collections::HashMap;
use std::sync::Mutex;

/// Type and length before each body.
pub(crate) const PREFIX: usize = 3;

/// One way into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Type 0: room without a meaning.
    Padding(Vec<u8>),
    /// Type 1: the file key under a password.
    Password {
        /// How the password becomes a key.
        kdf: Kdf,
        /// The wrapped file key.
        wrapped: [u8; WRAPPED],
    },
    /// Type 2: the file key under a named key.
    Key {
        /// The named key's id.
        id: KeyId,
        /// The wrapped file key.
        wrapped: [u8; WRAPPED],
    },
    /// A type that this program does not know, kept as it is.
    Unknown {
        /// The type's number.
        kind: u8,
        /// The body.
        body: Vec<u8>,
    },
}

impl Slot {
    /// Takes one slot off the front of `rest`.
    pub(crate) fn parse(rest: &mut &[u8]) -> Result<Self> {
        const OVER: Error = Error::Header("a slot runs over the end");
        let (prefix, behind) = rest.split_first_chunk::<PREFIX>().ok_or(OVER)?;
        let len = usize::from(u16::from_le_bytes([prefix[1], prefix[2]]));
        let (body, behind) = behind.split_at_checked(len).ok_or(OVER)?;
        *rest = behind;
        match prefix[0] {
            0 => Ok(Slot::Padding(body.to_vec())),
            1 => Self::parse_password(body),
            2 => Self::parse_key(body).ok_or(Error::Header("a key slot of the wrong length")),
            kind => Ok(Slot::Unknown { kind, body: body.to_vec() }),
        }
    }

    fn parse_password(body: &[u8]) -> Result<Self> {
        let fields = || {
            let (salt, rest) = body.split_first_chunk::<16>()?;
            let (memory, rest) = rest.split_first_chunk::<4>()?;
            let (passes, rest) = rest.split_first_chunk::<4>()?;
            let (lanes, wrapped) = rest.split_first()?;
            let kdf = Kdf {
                salt: *salt,
                memory_kib: u32::from_le_bytes(*memory),
                passes: u32::from_le_bytes(*passes),
                lanes: *lanes,
            };
            Some(Slot::Password { kdf, wrapped: wrapped.try_into().ok()? })
        };
        match fields() {
            Some(Slot::Password { kdf, .. }) if !kdf.is_lawful() => {
                Err(Error::Header("a password slot with impossible parameters"))
            }
            Some(slot) => Ok(slot),
            None => Err(Error::Header("a password slot of the wrong length")),
        }
    }

    fn parse_key(body: &[u8]) -> Option<Self> {
        let (id, wrapped) = body.split_first_chunk::<16>()?;
        Some(Slot::Key { id: KeyId(*id), wrapped: wrapped.try_into().ok()? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[self.kind(), 0, 0]);
        match self {
            Slot::Padding(body) | Slot::Unknown { body, .. } => out.extend_from_slice(body),
            Slot::Password { kdf, wrapped } => {
                out.extend_from_slice(&kdf.salt);
                out.extend_from_slice(&kdf.memory_kib.to_le_bytes());
                out.extend_from_slice(&kdf.passes.to_le_bytes());
                out.push(kdf.lanes);
                out.extend_from_slice(wrapped);
            }
            Slot::Key { id, wrapped } => {
                out.extend_from_slice(&id.0);
                out.extend_from_slice(wrapped);
            }
        }
        let len = u16::try_from(out.len() - start - PREFIX).expect("a header is shorter than a slot may be");
        out[start + 1..start + PREFIX].copy_from_slice(&len.to_le_bytes());
    }

    /// The slot's type, as a number.
    pub fn kind(&self) -> u8 {
        match self {
            Slot::Padding(_) => 0,
            Slot::Password { .. } => 1,
            Slot::Key { .. } => 2,
            Slot::Unknown { kind, .. } => *kind,
        }
    }
}

/// What a file is protected for: each becomes a slot. Made once, for any number of files.
#[derive(Clone, Debug)]
pub enum Recipient {
    /// Whoever knows a password.
    Password {
        /// Its parameters and salt.
        kdf: Kdf,
        /// What Argon2 made of it.
        kek: WrappingKey,
    },
    /// Whoever holds a named key.
    Key {
        /// Its id.
        id: KeyId,
        /// Its key-encrypting key.
        kek: WrappingKey,
    },
}

impl Recipient {
    /// A password, under a new salt: runs Argon2.
    pub fn password(password: &Password) -> Result<Self> {
        let kdf = Kdf::recommended()?;
        Ok(Recipient::Password { kdf, kek: password.wrapping_key(&kdf)? })
    }

    /// A named key.
    pub fn key(key: &SecretKey) -> Self {
        Recipient::Key { id: key.id(), kek: key.wrapping_key() }
    }

    fn slot(&self, file_key: &SecretKey) -> Slot {
        match self {
            Recipient::Password { kdf, kek } => Slot::Password { kdf: *kdf, wrapped: kek.wrap(file_key) },
            Recipient::Key { id, kek } => Slot::Key { id: *id, wrapped: kek.wrap(file_key) },
        }
    }
}

/// Draws a new file key and writes the header that gives it to the recipients.
pub fn new_header(suite: Suite, chunk_log2: u8, recipients: &[Recipient]) -> Result<(Header, FileKeys)> {
    let file_key = SecretKey::random()?;
    let keys = file_key.file_keys(suite);
    let slots = recipients.iter().map(|r| r.slot(&file_key)).collect();
    Ok((Header::new(suite, chunk_log2, slots, &keys)?, keys))
}

/// Where the keys at hand come from. Asked only for what a file can use, and perhaps for the same again: it then
/// answers the same.
pub trait KeySource {
    /// The named key with this id, if it is at hand.
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>>;
    /// The password, if there is one; a command asks its user here.
    fn password(&self) -> Result<Option<Password>>;
}

/// How much key derivation a reader does for one file.
#[derive(Clone, Copy, Debug)]
pub struct KdfLimit {
    /// The largest memory of one password slot, in KiB.
    pub memory_kib: u32,
    /// The largest sum of memory × passes over all password slots, in KiB.
    pub work: u64,
}

impl Default for KdfLimit {
    /// 1 GiB, and 1 GiB × 16.
    fn default() -> Self {
        Self { memory_kib: 1 << 20, work: 16 << 20 }
    }
}

/// Opens headers with the keys at hand. One Argon2 serves all files with the same password and salt.
pub struct Opener<S> {
    source: S,
    limit: KdfLimit,
    // Boxed, since a map that grows would leave copies behind.
    derived: Mutex<HashMap<Kdf, Box<WrappingKey>>>,
}

impl<S: KeySource> Opener<S> {
    /// Opens with the keys of `source`.
    pub fn new(source: S, limit: KdfLimit) -> Self {
        Self { source, limit, derived: Mutex::default() }
    }

    /// The keys of the file that `header` stands before; the header's tag has then been checked.
    ///
    /// Key slots are tried first, since they cost nothing, then password slots.
    pub fn open(&self, header: &Header) -> Result<FileKeys> {
        let (mut ids, mut tried) = (Vec::new(), false);
        for slot in header.slots() {
            let Slot::Key { id, wrapped } = slot else { continue };
            match self.source.key(id)? {
                Some(key) => {
                    tried = true;
                    if let Some(keys) = unlock(header, &key.wrapping_key(), wrapped) {
                        return Ok(keys);
                    }
                }
                None => ids.push(*id),
            }
        }
        let passwords: Vec<_> = header.slots().iter().filter_map(password_slot).collect();
        if !passwords.is_empty()
            && let Some(password) = self.source.password()?
        {
            tried = true;
            self.check_limit(passwords.iter().map(|(kdf, _)| *kdf))?;
            for (kdf, wrapped) in &passwords {
                if let Some(keys) = unlock(header, &self.derive(&password, kdf)?, wrapped) {
                    return Ok(keys);
                }
            }
        }
        Err(if tried { Error::WrongKey } else { Error::NoKey { keys: ids, password: !passwords.is_empty() } })
    }

    fn check_limit<'a>(&self, kdfs: impl Iterator<Item = &'a Kdf> + Clone) -> Result<()> {
        if kdfs.clone().any(|kdf| kdf.memory_kib > self.limit.memory_kib) {
            return Err(Error::KdfLimit("too much memory"));
        }
        if kdfs.map(Kdf::work).fold(0, u64::saturating_add) > self.limit.work {
            return Err(Error::KdfLimit("too much memory × passes"));
        }
        Ok(())
    }

    fn derive(&self, password: &Password, kdf: &Kdf) -> Result<WrappingKey> {
        // The lock is held while Argon2 runs: whoever needs the same key waits for it instead of deriving it again.
        let mut derived = self.derived.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(kek) = derived.get(kdf) {
            return Ok(*kek.clone());
        }
        let kek = Box::new(password.wrapping_key(kdf)?);
        derived.insert(*kdf, kek.clone());
        Ok(*kek)
    }
}

fn password_slot(slot: &Slot) -> Option<(&Kdf, &[u8; WRAPPED])> {
    match slot {
        Slot::Password { kdf, wrapped } => Some((kdf, wrapped)),
        _ => None,
    }
}

/// Unwraps the file key and checks the header's tag with what comes of it.
fn unlock(header: &Header, kek: &WrappingKey, wrapped: &[u8; WRAPPED]) -> Option<FileKeys> {
    let keys = kek.unwrap(wrapped)?.file_keys(header.suite());
    header.is_authentic(&keys).then_some(keys)
}
