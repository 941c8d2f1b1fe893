//! Opening a file by the keys at hand: the slots of its header are tried one after another.

use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::keys::id::KeyId;
use crate::keys::key::{FileKeys, Kdf, Password, SecretKey, WRAPPED, WrappingKey};
use crate::keys::recipient::Recipient;
use crate::keys::source::KeySource;
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::Mutex;

/// How many service slots of one file are tried.
pub(crate) const MOST_SERVICE_SLOTS: usize = 8;

/// What opened a file, and whose slot it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenedBy {
    /// A named key.
    Key(KeyId),
    /// An age identity, with the name that [`KeySource::identity`] gives. Anybody can write a file for a public key, so
    /// the sender of this one is unknown.
    Identity(String),
    /// A password.
    Password,
    /// The key service with this URI. Anybody for whom it wraps keys can have written the file.
    Service(String),
}

/// How a header was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    pub(crate) file_key: SecretKey,
    /// The file's keys.
    pub keys: FileKeys,
    /// The [number](Header::slots) of the slot.
    pub slot: usize,
    /// Whose slot it is.
    pub by: OpenedBy,
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

/// Opens headers with the keys at hand. Argon2 runs once for all files with the same password and salt.
pub struct Opener<S> {
    source: S,
    limit: KdfLimit,
    // Boxed, since a map that grows would leave copies in freed memory.
    derived: Mutex<HashMap<Kdf, Box<WrappingKey>>>,
    /// Held while Argon2 runs: a thread that needs the same key waits for it instead of deriving it again.
    deriving: Mutex<()>,
    /// The password under a salt of this run.
    renewed: Mutex<Option<Recipient>>,
}

impl<S: KeySource> Opener<S> {
    /// Opens with the keys of `source`.
    pub fn new(source: S, limit: KdfLimit) -> Self {
        Self { source, limit, derived: Mutex::default(), deriving: Mutex::default(), renewed: Mutex::default() }
    }

    /// The source of the keys.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Opens a header and checks its tag. Returns the keys of the file.
    ///
    /// Key slots are tried first, since they cost nothing, then age slots and service slots. What somebody may be asked for comes
    /// last: the locked keys of key slots, and password slots.
    ///
    /// # Errors
    /// [`Error::NoKey`] if no key at hand is for the file, [`Error::WrongKey`] if one is but does not open it,
    /// [`Error::KeysRefused`] if none opens it and some were refused. [`Error::KdfLimit`] or [`Error::KdfMemory`] if a
    /// password cannot be tried. Also what the source of keys reports.
    pub fn open(&self, header: &Header) -> Result<Opened> {
        self.open_slot(header, |_| true)
    }

    /// The keys of the file with this header, by one of the slots for which `tries` returns true. See [`Self::open`].
    pub(crate) fn open_slot(&self, header: &Header, tries: impl Fn(usize) -> bool) -> Result<Opened> {
        let mut unopened = Unopened::default();
        for (slot, (id, wrapped)) in slots(header, key_slot).filter(|(slot, _)| tries(*slot)) {
            match self.source.key(id) {
                Ok(Some(key)) => {
                    unopened.tried = true;
                    if let Some((file_key, keys)) = unlock(header, &key.wrapping_key(), wrapped) {
                        return Ok(Opened { file_key, keys, slot, by: OpenedBy::Key(*id) });
                    }
                }
                Ok(None) => unopened.keys.push(*id),
                Err(e) => {
                    unopened.refuse(e)?;
                    unopened.keys.push(*id);
                }
            }
        }
        let age_slots: Vec<_> = slots(header, age_slot).filter(|(slot, _)| tries(*slot)).collect();
        unopened.identity = !age_slots.is_empty();
        if unopened.identity {
            match self.open_by_identity(header, &age_slots) {
                Ok(Some(opened)) => return Ok(opened),
                Ok(None) => {}
                Err(e) => unopened.refuse(e)?,
            }
        }
        if let Some(opened) = self.open_by_service(header, &tries, &mut unopened)? {
            return Ok(opened);
        }
        if let Some(opened) = self.open_by_locked_key(header, &tries, &mut unopened)? {
            return Ok(opened);
        }
        let passwords: Vec<_> = slots(header, password_slot).filter(|(slot, _)| tries(*slot)).collect();
        unopened.password = !passwords.is_empty();
        if unopened.password
            && let Some(password) = self.source.password()?
        {
            unopened.tried = true;
            self.check_limit(passwords.iter().map(|(_, (kdf, _))| *kdf))?;
            for (slot, (kdf, wrapped)) in passwords {
                if let Some((file_key, keys)) = unlock(header, &self.derive(&password, kdf)?, wrapped) {
                    return Ok(Opened { file_key, keys, slot, by: OpenedBy::Password });
                }
            }
        }
        Err(unopened.into())
    }

    fn open_by_identity(&self, header: &Header, slots: &[(usize, &[u8])]) -> Result<Option<Opened>> {
        let files: Vec<_> = slots.iter().map(|(_, file)| *file).collect();
        let mut opened = None;
        let name = self.source.identity(&files, &mut |at, file_key| {
            let Some((slot, _)) = slots.get(at) else { return false };
            let keys = file_key.file_keys(header.suite());
            let opens = header.is_authentic(&keys);
            if opens {
                opened = Some((*slot, file_key.clone(), keys));
            }
            opens
        })?;
        // Only a key that the header has confirmed counts.
        let (Some(name), Some((slot, file_key, keys))) = (name, opened) else { return Ok(None) };
        Ok(Some(Opened { file_key, keys, slot, by: OpenedBy::Identity(name) }))
    }

    fn open_by_service(
        &self,
        header: &Header,
        tries: impl Fn(usize) -> bool,
        unopened: &mut Unopened,
    ) -> Result<Option<Opened>> {
        let mut named = 0;
        for (slot, service) in slots(header, service_slot).filter(|(slot, _)| tries(*slot)) {
            let ServiceSlot { uri, run_key, wrapped } = service;
            if named < MOST_SERVICE_SLOTS {
                match self.source.service(uri, run_key) {
                    Ok(Some(run_key)) => {
                        (named, unopened.tried) = (named + 1, true);
                        if let Some((file_key, keys)) = unlock(header, &run_key.wrapping_key(), wrapped) {
                            return Ok(Some(Opened { file_key, keys, slot, by: OpenedBy::Service(uri.into()) }));
                        }
                        continue;
                    }
                    Ok(None) => {}
                    Err(e) => {
                        named += 1;
                        unopened.refuse(e)?;
                    }
                }
            }
            unopened.add_service(uri);
        }
        Ok(None)
    }

    fn open_by_locked_key(
        &self,
        header: &Header,
        tries: impl Fn(usize) -> bool,
        unopened: &mut Unopened,
    ) -> Result<Option<Opened>> {
        for (slot, (id, wrapped)) in slots(header, key_slot).filter(|(slot, _)| tries(*slot)) {
            match self.source.locked_key(id) {
                Ok(Some(key)) => {
                    unopened.tried = true;
                    if let Some((file_key, keys)) = unlock(header, &key.wrapping_key(), wrapped) {
                        return Ok(Some(Opened { file_key, keys, slot, by: OpenedBy::Key(*id) }));
                    }
                }
                Ok(None) => {}
                Err(e) => unopened.refuse(e)?,
            }
        }
        Ok(None)
    }

    /// The recipients of the slots for which `keeps` returns true, to protect a new file for them. Each slot must open
    /// with what is at hand; [`Error::NotAtHand`] names the first that does not. An age slot does not show its
    /// recipient, but its tag says whether it is that of an identity at hand. `keys` come from the file key.
    pub(crate) fn recipients(
        &self,
        header: &Header,
        keeps: impl Fn(usize) -> bool,
        file_key: &SecretKey,
        keys: &FileKeys,
    ) -> Result<Vec<Recipient>> {
        let kept = || header.numbered().filter(|(number, _)| keeps(*number));
        let purpose = header.purpose();
        let opens = |kek: &WrappingKey, wrapped| kek.unwrap(purpose, wrapped).is_some_and(|key| key.matches(file_key));
        let (mut recipients, mut limited, mut has_password) = (Vec::new(), false, false);
        let mut services = 0;
        for (number, slot) in kept() {
            let recipient = match slot {
                Slot::Key { id, wrapped } => match self.any_key(id) {
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
                Slot::Age { tag, .. } => {
                    self.source.age_recipient(&|text| keys.recipient_tag(text) == *tag).map(Recipient::Age)
                }
                Slot::Service { uri, run_key, wrapped } => {
                    let found = match services < MOST_SERVICE_SLOTS {
                        true => self.source.service(uri, run_key),
                        false => Ok(None),
                    };
                    // As when a file is opened, only named services count.
                    services += usize::from(!matches!(found, Ok(None)));
                    let run_key = match found {
                        Err(Error::KeysRefused { .. }) => None,
                        found => found?,
                    };
                    // Whoever has kept an old run key must not open the new file by it.
                    match run_key.is_some_and(|run_key| opens(&run_key.wrapping_key(), wrapped)) {
                        true => self.source.service_recipient(uri)?,
                        false => None,
                    }
                }
                Slot::Padding(_) | Slot::Unknown { .. } => None,
            };
            recipients.push(recipient.ok_or(Error::NotAtHand(number))?);
        }
        Ok(recipients)
    }

    fn any_key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        match self.source.key(id)? {
            Some(key) => Ok(Some(key)),
            None => self.source.locked_key(id),
        }
    }

    /// The password for new files. Argon2 runs once for all of them.
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
        let derived = || self.derived.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = || derived().get(kdf).map(|kek| WrappingKey::clone(kek));
        if let Some(kek) = known() {
            return Ok(kek);
        }
        let _alone = self.deriving.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(kek) = known() {
            return Ok(kek);
        }
        let kek = Box::new(password.wrapping_key(kdf)?);
        derived().insert(*kdf, kek.clone());
        Ok(*kek)
    }
}

/// What is known so far about a file that no key at hand has opened.
#[derive(Default)]
struct Unopened {
    /// The ids of key slots for which no key was found.
    keys: Vec<KeyId>,
    identity: bool,
    /// The URIs of the services that did not open it, each once.
    services: Vec<String>,
    password: bool,
    /// Whether a key or password for the file was at hand but did not open it.
    tried: bool,
    refused: Vec<String>,
    remedy: Option<String>,
}

impl Unopened {
    /// Keeps a refusal, because other ways in may open the file. Any other error ends the search.
    fn refuse(&mut self, error: Error) -> Result<()> {
        let Error::KeysRefused { refused, remedy, .. } = error else { return Err(error) };
        self.refused.extend(refused);
        self.remedy = self.remedy.take().or(remedy);
        Ok(())
    }

    fn add_service(&mut self, uri: &str) {
        if self.services.iter().all(|other| other != uri) {
            self.services.push(uri.into());
        }
    }
}

impl From<Unopened> for Error {
    fn from(unopened: Unopened) -> Self {
        let Unopened { keys, identity, services, password, tried, mut refused, remedy } = unopened;
        let services = services.into_boxed_slice();
        if !refused.is_empty() {
            refused.sort();
            refused.dedup();
            return Error::KeysRefused { keys, identity, services, password, tried, refused, remedy };
        }
        if tried { Error::WrongKey } else { Error::NoKey { keys, identity, services, password } }
    }
}

/// The slots of one kind, with their numbers.
fn slots<'h, T: 'h>(
    header: &'h Header,
    kind: impl Fn(&'h Slot) -> Option<T> + 'h,
) -> impl Iterator<Item = (usize, T)> + 'h {
    header.numbered().filter_map(move |(number, slot)| Some((number, kind(slot)?)))
}

fn key_slot(slot: &Slot) -> Option<(&KeyId, &[u8; WRAPPED])> {
    match slot {
        Slot::Key { id, wrapped } => Some((id, wrapped)),
        _ => None,
    }
}

fn age_slot(slot: &Slot) -> Option<&[u8]> {
    match slot {
        Slot::Age { file, .. } => Some(file),
        _ => None,
    }
}

fn password_slot(slot: &Slot) -> Option<(&Kdf, &[u8; WRAPPED])> {
    match slot {
        Slot::Password { kdf, wrapped } => Some((kdf, wrapped)),
        _ => None,
    }
}

struct ServiceSlot<'h> {
    uri: &'h str,
    run_key: &'h [u8],
    wrapped: &'h [u8; WRAPPED],
}

fn service_slot(slot: &Slot) -> Option<ServiceSlot<'_>> {
    match slot {
        Slot::Service { uri, run_key, wrapped } => Some(ServiceSlot { uri, run_key, wrapped }),
        _ => None,
    }
}

/// Unwraps the file key and checks the header's tag with it.
fn unlock(header: &Header, kek: &WrappingKey, wrapped: &[u8; WRAPPED]) -> Option<(SecretKey, FileKeys)> {
    let file_key = kek.unwrap(header.purpose(), wrapped)?;
    let keys = file_key.file_keys(header.suite());
    header.is_authentic(&keys).then_some((file_key, keys))
}
