//! Giving access to a file: recipients, and the headers that are made for them.

use crate::format::header::Draft;
use crate::format::purpose::Purpose;
use crate::format::slot::{MAX_AGE_FILE, MAX_RUN_KEY, MAX_SERVICE_URI, Slot, is_service_uri};
use crate::keys::id::KeyId;
use crate::keys::key::{FileKeys, Kdf, Password, SecretKey, WrappingKey};
use crate::secret::wiped;
use crate::{Error, Result, Suite};
use std::fmt;
use std::sync::Arc;

/// A recipient that a file is protected for. Each becomes a slot. It is made once, for any number of files.
#[derive(Clone, Debug)]
pub enum Recipient {
    /// Anybody who knows a password.
    Password {
        /// Its parameters and salt.
        kdf: Kdf,
        /// The key that Argon2 derived from it.
        kek: WrappingKey,
    },
    /// Anybody who holds a named key.
    Key {
        /// Its id.
        id: KeyId,
        /// Its key-encrypting key.
        kek: WrappingKey,
    },
    /// Anybody who holds the identity of an age recipient.
    Age(Arc<dyn AgeRecipient>),
    /// Anybody for whom a key service unwraps the run key: [`Recipient::service`].
    Service {
        /// Names the service and its key.
        uri: Arc<str>,
        /// The run key as the service wrapped it.
        run_key: Arc<[u8]>,
        /// The key-encrypting key that the run key gives.
        kek: WrappingKey,
    },
}

/// A recipient of age files: a public key. The crate `phalanx-age` implements it.
pub trait AgeRecipient: fmt::Debug + Send + Sync {
    /// Its canonical text: “age1…” in small letters, or an SSH key's type and Base64 with one space between them.
    fn text(&self) -> &str;
    /// A binary age file for this recipient alone, whose payload is the file key's 32 bytes.
    ///
    /// # Errors
    /// [`Error::Recipient`] if it cannot be made.
    fn wrap(&self, file_key: &SecretKey) -> Result<Vec<u8>>;
}

impl Recipient {
    /// A password, under a new salt: runs Argon2.
    ///
    /// # Errors
    /// [`Error::KdfMemory`] if Argon2 gets no memory, [`Error::Random`] if the system gives no random bytes.
    pub fn password(password: &Password) -> Result<Self> {
        let kdf = Kdf::recommended()?;
        Ok(Recipient::Password { kdf, kek: password.wrapping_key(&kdf)? })
    }

    /// A named key.
    #[must_use]
    pub fn key(key: &SecretKey) -> Self {
        Recipient::Key { id: key.id(), kek: key.wrapping_key() }
    }

    /// A key service, which has wrapped `run_key` as `wrapped`. The run key must be a new one, drawn for this service and
    /// used for nothing else.
    ///
    /// # Errors
    /// [`Error::Recipient`] if the URI or the wrapped run key does not fit into a slot.
    pub fn service(uri: &str, wrapped: &[u8], run_key: &SecretKey) -> Result<Self> {
        let refused = |reason: String| Error::Recipient { recipient: uri.into(), reason };
        if !is_service_uri(uri) {
            let line = format!("a key service's URI has 1 to {MAX_SERVICE_URI} printable characters, and no space");
            return Err(refused(line));
        }
        if !(1..=MAX_RUN_KEY).contains(&wrapped.len()) {
            let len = wrapped.len();
            return Err(refused(format!("the wrapped run key has {len} bytes, and a slot holds 1 to {MAX_RUN_KEY}")));
        }
        Ok(Recipient::Service { uri: uri.into(), run_key: wrapped.into(), kek: run_key.wrapping_key() })
    }

    /// The slot that gives the recipient the file key, from which `keys` come.
    pub(crate) fn slot(&self, purpose: Purpose, file_key: &SecretKey, keys: &FileKeys) -> Result<Slot> {
        Ok(match self {
            Recipient::Password { kdf, kek } => Slot::Password { kdf: *kdf, wrapped: kek.wrap(purpose, file_key) },
            Recipient::Key { id, kek } => Slot::Key { id: *id, wrapped: kek.wrap(purpose, file_key) },
            Recipient::Age(recipient) if purpose == Purpose::Volume => {
                return Err(not_for_volumes(recipient.text()));
            }
            Recipient::Service { uri, .. } if purpose == Purpose::Volume => return Err(not_for_volumes(uri)),
            Recipient::Service { uri, run_key, kek } => {
                let wrapped = kek.wrap(purpose, file_key);
                Slot::Service { uri: uri.to_string(), run_key: run_key.to_vec(), wrapped }
            }
            Recipient::Age(recipient) => {
                let file = recipient.wrap(file_key)?;
                if !(1..=MAX_AGE_FILE).contains(&file.len()) {
                    let reason = format!("its age file has {} bytes, and a slot holds 1 to {MAX_AGE_FILE}", file.len());
                    return Err(Error::Recipient { recipient: recipient.text().into(), reason });
                }
                Slot::Age { tag: keys.recipient_tag(recipient.text()), file }
            }
        })
    }
}

fn not_for_volumes(recipient: &str) -> Error {
    Error::Recipient { recipient: recipient.into(), reason: "a volume opens by keys and passwords only".into() }
}

/// Draws a new file key and makes the header that gives it to the recipients.
pub(crate) fn new_header(suite: Suite, chunk_log2: u8, recipients: &[Recipient]) -> Result<(Draft, FileKeys)> {
    // The stack is wiped at each step, because slots are moved to memory that is not wiped.
    wiped(|| {
        let file_key = wiped(SecretKey::random)?;
        let keys = file_key.file_keys(suite);
        let slots = slots_for(Purpose::File, recipients, &file_key, &keys)?;
        Ok((Draft::new(suite, chunk_log2, slots)?, keys))
    })
}

/// The slots that give the recipients the file key, from which `keys` come.
pub(crate) fn slots_for(
    purpose: Purpose,
    recipients: &[Recipient],
    file_key: &SecretKey,
    keys: &FileKeys,
) -> Result<Vec<Slot>> {
    recipients.iter().map(|recipient| recipient.slot(purpose, file_key, keys)).collect()
}
