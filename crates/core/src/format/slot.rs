//! Slots, the ways into a file, as they are stored: `docs/format.md`, section 4.

use crate::keys::id::KeyId;
use crate::keys::key::{Kdf, WRAPPED};
use crate::{Error, Result};

/// Type and length before each body.
pub(crate) const PREFIX: usize = 3;
/// The recipient's tag at the start of the body of an age slot.
const AGE_TAG: usize = 16;
const AGE_LEN: Error = Error::Header("an age slot of the wrong length");
/// The length in bytes of the longest age file in a slot.
pub const MAX_AGE_FILE: usize = 16384;
/// The type of a slot for a key service. One whose body is malformed is a [`Slot::Unknown`].
const SERVICE: u8 = 4;
/// The length in bytes of the longest URI of a key service.
pub const MAX_SERVICE_URI: usize = 1024;
/// The length in bytes of the longest run key as a key service wraps it.
pub const MAX_RUN_KEY: usize = 4096;

/// One way into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Type 0: padding, whose content is ignored.
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
    /// Type 3: the file key in an age file for one recipient. The age file is not checked here.
    Age {
        /// Identifies the recipient to anybody who can open the file:
        /// [`FileKeys::recipient_tag`](crate::format::FileKeys::recipient_tag).
        tag: [u8; AGE_TAG],
        /// The age file: 1 to 16384 bytes.
        file: Vec<u8>,
    },
    /// Type 4: the file key under a run key that a key service wrapped.
    Service {
        /// Names the service and its key: 1 to 1024 printable ASCII characters without spaces.
        uri: String,
        /// The run key as the service wrapped it: 1 to 4096 bytes.
        run_key: Vec<u8>,
        /// The file key, wrapped under the run key.
        wrapped: [u8; WRAPPED],
    },
    /// A type that gives nobody access, or that this program does not know, kept as it is. So is a slot of type 4 whose
    /// body is malformed.
    Unknown {
        /// The type's number.
        kind: u8,
        /// The body.
        body: Vec<u8>,
    },
}

impl Slot {
    /// The type of the slot that makes a header that of a volume's config. It gives nobody access, so it is a
    /// [`Slot::Unknown`].
    pub const VOLUME: u8 = 16;
    /// The type of the slot that lists the holes of a volume's file. It is a [`Slot::Unknown`] too.
    pub const HOLES: u8 = 17;
    /// The type of the slot with the sums of a file's chunks, in a volume with protection against rollback. It is a
    /// [`Slot::Unknown`] too.
    pub const STATE: u8 = 18;

    /// Reads one slot from the front of `rest`.
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
            3 => Self::parse_age(body).ok_or(AGE_LEN),
            SERVICE => {
                Ok(Self::parse_service(body).unwrap_or_else(|| Slot::Unknown { kind: SERVICE, body: body.to_vec() }))
            }
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

    fn parse_age(body: &[u8]) -> Option<Self> {
        let (tag, file) = body.split_first_chunk::<AGE_TAG>()?;
        (1..=MAX_AGE_FILE).contains(&file.len()).then(|| Slot::Age { tag: *tag, file: file.to_vec() })
    }

    fn parse_service(body: &[u8]) -> Option<Self> {
        let (uri, rest) = field(body)?;
        let (run_key, wrapped) = field(rest)?;
        let uri = str::from_utf8(uri).ok().filter(|uri| is_service_uri(uri))?.to_owned();
        let wrapped = wrapped.try_into().ok()?;
        (1..=MAX_RUN_KEY).contains(&run_key.len()).then(|| Slot::Service { uri, run_key: run_key.to_vec(), wrapped })
    }

    /// Checks that a reader would read it as the same slot.
    ///
    /// # Errors
    /// [`Error::Header`] if not.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Slot::Age { file, .. } if !(1..=MAX_AGE_FILE).contains(&file.len()) => Err(AGE_LEN),
            Slot::Service { uri, run_key, .. }
                if !is_service_uri(uri) || !(1..=MAX_RUN_KEY).contains(&run_key.len()) =>
            {
                Err(Error::Header("a service slot with an impossible URI or run key"))
            }
            Slot::Unknown { kind: SERVICE, body } if Self::parse_service(body).is_some() => {
                Err(Error::Header("a slot of a known type given as unknown"))
            }
            Slot::Unknown { kind: 0..=3, .. } => Err(Error::Header("a slot of a known type given as unknown")),
            _ => Ok(()),
        }
    }

    /// Writes the slot, whose length the caller has checked.
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
            Slot::Age { tag, file } => {
                out.extend_from_slice(tag);
                out.extend_from_slice(file);
            }
            Slot::Service { uri, run_key, wrapped } => {
                for field in [uri.as_bytes(), run_key] {
                    let len = u16::try_from(field.len()).expect("the caller has checked it");
                    out.extend_from_slice(&len.to_le_bytes());
                    out.extend_from_slice(field);
                }
                out.extend_from_slice(wrapped);
            }
        }
        let len = u16::try_from(out.len() - start - PREFIX).expect("a header is shorter than a slot may be");
        out[start + 1..start + PREFIX].copy_from_slice(&len.to_le_bytes());
    }

    /// The length of the stored slot in bytes, type and length included.
    pub(crate) fn len(&self) -> usize {
        let body = match self {
            Slot::Padding(body) | Slot::Unknown { body, .. } => body.len(),
            Slot::Password { .. } => 16 + 4 + 4 + 1 + WRAPPED,
            Slot::Key { .. } => 16 + WRAPPED,
            Slot::Age { tag, file } => tag.len() + file.len(),
            Slot::Service { uri, run_key, .. } => 2 + uri.len() + 2 + run_key.len() + WRAPPED,
        };
        PREFIX + body
    }

    /// The slot's type, as a number.
    #[must_use]
    pub fn kind(&self) -> u8 {
        match self {
            Slot::Padding(_) => 0,
            Slot::Password { .. } => 1,
            Slot::Key { .. } => 2,
            Slot::Age { .. } => 3,
            Slot::Service { .. } => SERVICE,
            Slot::Unknown { kind, .. } => *kind,
        }
    }
}

/// Whether a text has the form of a key service's URI in slots: 1 to 1024 printable ASCII characters without spaces.
#[must_use]
pub fn is_service_uri(text: &str) -> bool {
    (1..=MAX_SERVICE_URI).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A field that begins with its length, and what follows it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}
