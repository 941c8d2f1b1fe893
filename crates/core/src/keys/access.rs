//! Giving access to a file, and gaining it: headers made for recipients, and opened by the keys at hand.

use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::keys::id::KeyId;
use crate::keys::key::{FileKeys, Kdf, Password, SecretKey, WRAPPED, WrappingKey};
use crate::{Error, Result, Suite};
use std::collections::HashMap;
use std::sync::Mutex;

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

    pub(crate) fn slot(&self, file_key: &SecretKey) -> Slot {
        match self {
            Recipient::Password { kdf, kek } => Slot::Password { kdf: *kdf, wrapped: kek.wrap(file_key) },
            Recipient::Key { id, kek } => Slot::Key { id: *id, wrapped: kek.wrap(file_key) },
        }
    }
}

/// Draws a new file key and writes the header that gives it to the recipients, with room for more of them.
pub fn new_header(suite: Suite, chunk_log2: u8, recipients: &[Recipient]) -> Result<(Header, FileKeys)> {
    let file_key = SecretKey::random()?;
    let keys = file_key.file_keys(suite);
    let slots = recipients.iter().map(|r| r.slot(&file_key)).collect();
    Ok((Header::padded(suite, chunk_log2, slots, &keys)?, keys))
}

/// Where the keys at hand come from. Asked only for what a file can use, and perhaps for the same again: it then
/// answers the same.
pub trait KeySource {
    /// The named key with this id, if it is at hand.
    ///
    /// [`Error::KeysRefused`] says that a key may be the one and is not used: the file's other ways in are then tried.
    ///
    /// # Errors
    /// Any other error ends the search, and the file is not opened.
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>>;
    /// The password, if there is one; a command asks its user here.
    ///
    /// # Errors
    /// If there is a password that cannot be had; the file is not opened then.
    fn password(&self) -> Result<Option<Password>>;
}

/// One key is at hand.
impl KeySource for SecretKey {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        Ok((self.id() == *id).then(|| self.clone()))
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(None)
    }
}

/// One password is at hand.
impl KeySource for Password {
    fn key(&self, _: &KeyId) -> Result<Option<SecretKey>> {
        Ok(None)
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(Some(self.clone()))
    }
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
    /// The password under a salt of this run.
    renewed: Mutex<Option<Recipient>>,
}

impl<S: KeySource> Opener<S> {
    /// Opens with the keys of `source`.
    pub fn new(source: S, limit: KdfLimit) -> Self {
        Self { source, limit, derived: Mutex::default(), renewed: Mutex::default() }
    }

    /// The keys of the file that `header` stands before; the header's tag has then been checked.
    ///
    /// Key slots are tried first, since they cost nothing, then password slots.
    ///
    /// # Errors
    /// [`Error::NoKey`] if no key at hand is for the file, [`Error::WrongKey`] if one is and does not open it,
    /// [`Error::KeysRefused`] if none opens it and some were refused. [`Error::KdfLimit`] or [`Error::KdfMemory`] if a password
    /// cannot be tried. Also what the source of keys reports.
    pub fn open(&self, header: &Header) -> Result<FileKeys> {
        Ok(self.open_slot(header, |_| true)?.keys)
    }

    /// The same, but only the slots of which `tries` says so are tried. Says which of them opened the header.
    pub(crate) fn open_slot(&self, header: &Header, tries: impl Fn(usize) -> bool) -> Result<Opened> {
        let slots = || header.slots().iter().enumerate().filter(|(i, _)| tries(*i));
        let (mut ids, mut tried, mut refused) = (Vec::new(), false, Vec::new());
        for (i, slot) in slots() {
            let Slot::Key { id, wrapped } = slot else { continue };
            match self.source.key(id) {
                Ok(Some(key)) => {
                    tried = true;
                    if let Some(opened) = unlock(header, &key.wrapping_key(), wrapped, i) {
                        return Ok(opened);
                    }
                }
                Ok(None) => ids.push(*id),
                Err(Error::KeysRefused { refused: those, .. }) => {
                    ids.push(*id);
                    refused.extend(those);
                }
                Err(e) => return Err(e),
            }
        }
        let passwords: Vec<_> = slots().filter_map(|(i, slot)| Some((i, password_slot(slot)?))).collect();
        if !passwords.is_empty()
            && let Some(password) = self.source.password()?
        {
            tried = true;
            self.check_limit(passwords.iter().map(|(_, (kdf, _))| *kdf))?;
            for (i, (kdf, wrapped)) in &passwords {
                if let Some(opened) = unlock(header, &self.derive(&password, kdf)?, wrapped, *i) {
                    return Ok(opened);
                }
            }
        }
        if !refused.is_empty() {
            refused.sort();
            refused.dedup();
            return Err(Error::KeysRefused { keys: ids, password: !passwords.is_empty(), tried, refused });
        }
        Err(if tried { Error::WrongKey } else { Error::NoKey { keys: ids, password: !passwords.is_empty() } })
    }

    /// Those whom the slots of which `keeps` says so are for, to protect a new file for them. Each slot must open with what
    /// is at hand; [`Error::NotAtHand`] tells of the first that does not.
    pub(crate) fn recipients(
        &self,
        header: &Header,
        keeps: impl Fn(usize) -> bool,
        file_key: &SecretKey,
    ) -> Result<Vec<Recipient>> {
        let kept = || header.slots().iter().enumerate().filter(|(i, _)| keeps(*i));
        let opens = |kek: &WrappingKey, wrapped| kek.unwrap(wrapped).is_some_and(|key| key.matches(file_key));
        let (mut recipients, mut limited, mut has_password) = (Vec::new(), false, false);
        for (i, slot) in kept() {
            let recipient = match slot {
                Slot::Key { id, wrapped } => match self.source.key(id) {
                    Ok(key) => key.filter(|key| opens(&key.wrapping_key(), wrapped)).map(|key| Recipient::key(&key)),
                    Err(Error::KeysRefused { .. }) => None,
                    Err(e) => return Err(e),
                },
                Slot::Password { kdf, wrapped } => match self.source.password()? {
                    Some(password) => {
                        if !std::mem::replace(&mut limited, true) {
                            self.check_limit(kept().filter_map(|(_, slot)| Some(password_slot(slot)?.0)))?;
                        }
                        let is_it = opens(&self.derive(&password, kdf)?, wrapped);
                        if is_it && std::mem::replace(&mut has_password, true) {
                            continue;
                        }
                        is_it.then(|| self.renewed(&password)).transpose()?
                    }
                    None => None,
                },
                Slot::Padding(_) | Slot::Unknown { .. } => None,
            };
            recipients.push(recipient.ok_or(Error::NotAtHand(i + 1))?);
        }
        Ok(recipients)
    }

    /// The password for new files. One Argon2 serves all of them.
    fn renewed(&self, password: &Password) -> Result<Recipient> {
        let mut renewed = self.renewed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if renewed.is_none() {
            *renewed = Some(Recipient::password(password)?);
        }
        Ok(renewed.clone().expect("it was set above"))
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

/// A header that was opened, and by which slot.
pub(crate) struct Opened {
    pub file_key: SecretKey,
    pub keys: FileKeys,
    pub slot: usize,
}

/// Unwraps the file key and checks the header's tag with what comes of it.
fn unlock(header: &Header, kek: &WrappingKey, wrapped: &[u8; WRAPPED], slot: usize) -> Option<Opened> {
    let file_key = kek.unwrap(wrapped)?;
    let keys = file_key.file_keys(header.suite());
    header.is_authentic(&keys).then_some(Opened { file_key, keys, slot })
}
