//! Keys of the keyring that are locked by a password, for identities or by a key service, opened when they are needed.

use crate::file::Keyring;
use crate::lines::complain;
use crate::services::Services;
use crate::{Error, Result, ask};
use phalanx_age::Identities;
use phalanx_core::format::{Header, Slot};
use phalanx_core::{Class, KdfLimit, KeyId, KeySource, Opener, Password, Recipient, SecretKey};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What the user has named that may open a locked key.
#[derive(Clone, Copy, Default)]
pub struct Ways<'a> {
    /// The identities of --identity.
    pub identities: Option<&'a Identities>,
    /// The services of --kms.
    pub services: Option<&'a Services>,
}

/// The key of a name. If it is locked, identities or services open it, or a password that its user types.
///
/// # Errors
/// Those of [`Keyring::load`], and [`Error::KeyLocked`] if nothing opens it.
pub fn load(keyring: &Keyring, name: &str, ways: Ways<'_>) -> Result<SecretKey> {
    match keyring.load(name) {
        Err(Error::KeyLocked(_)) => {
            let (id, protected) = keyring.locked(name)?.ok_or_else(|| Error::KeyLocked(name.into()))?;
            open(name, id, &protected, ways)
        }
        loaded => loaded,
    }
}

/// The locked key with this id, and its name, if it can be opened now.
pub fn find(keyring: &Keyring, id: &KeyId, ways: Ways<'_>) -> Option<(String, SecretKey)> {
    let name = keyring.locked_with(id).ok()??;
    let key = open(&name, *id, &keyring.locked_file(&name, id).ok()??, ways).ok()?;
    Some((name, key))
}

/// Locks a key: from now on it is protected for these recipients. Each of `services` must unwrap what it has wrapped before
/// the key goes, since nobody but the service can tell. They have not been asked before, so that they are asked now.
///
/// # Errors
/// Those of [`Keyring::load`] and [`Keyring::lock`], and that of a service that does not open it.
pub fn lock(keyring: &Keyring, name: &str, recipients: &[Recipient], services: &[Services]) -> Result<()> {
    let key = keyring.load(name)?;
    let protected = phalanx_core::protect(key.expose(), recipients)?;
    for services in services {
        let ways = Ways { services: Some(services), ..Ways::default() };
        let opener = Opener::new(Attempt { ways, password: None }, KdfLimit::default());
        key_of(name, &key.id(), &protected, &opener)?;
    }
    keyring.lock(name, &key, &protected)
}

/// Unlocks a key.
///
/// # Errors
/// [`Error::NoSuchKey`] if no key of this name is locked, and those of [`phalanx_core::unprotect`] and [`Keyring::unlock`].
pub fn unlock(keyring: &Keyring, name: &str, opener: &Opener<impl KeySource>) -> Result<()> {
    let (id, protected) = keyring.locked(name)?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
    keyring.unlock(name, &key_of(name, &id, &protected, opener)?)
}

/// The key in a protected file. It must be the one whose id the file's name has.
fn key_of(name: &str, id: &KeyId, protected: &[u8], opener: &Opener<impl KeySource>) -> Result<SecretKey> {
    let key = SecretKey::from_slice(&phalanx_core::unprotect(protected, opener)?).filter(|key| key.id() == *id);
    key.ok_or_else(|| Error::KeyDamaged(name.into()))
}

/// Opens a locked key by identities, by the password that opened another one, or by one that is typed now.
fn open(name: &str, id: KeyId, protected: &[u8], ways: Ways<'_>) -> Result<SecretKey> {
    let locked = || Error::KeyLocked(name.into());
    let attempt = |password: Option<Password>| {
        let opener = Opener::new(Attempt { ways, password }, KdfLimit::default());
        match key_of(name, &id, protected, &opener) {
            Err(e) if e.class() == Class::NotAuthentic => Ok(None),
            opened => opened.map(Some),
        }
    };
    // Others wait while one asks.
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(key) = attempt(asked.password_for(&id))? {
        return Ok(key);
    }
    asked.unopened.insert(id);
    let header = Header::read(&mut &*protected)?;
    let has_password = header.slots().iter().any(|slot| matches!(slot, Slot::Password { .. }));
    // A stranger's file could name the key again and again.
    if !has_password || asked.refused.contains(&id) {
        return Err(locked());
    }
    let password = ask::password(&format!("Password of the key {name}: ")).map_err(|_| locked())?;
    match attempt(Some(password.clone()))? {
        Some(key) => {
            asked.opened_by(password);
            Ok(key)
        }
        None => {
            asked.refused.push(id);
            complain(format!("the key {name}: the password is wrong"));
            Err(locked())
        }
    }
}

/// What the user was asked for in this run.
static ASKED: Mutex<Asked> = Mutex::new(Asked { password: None, unopened: BTreeSet::new(), refused: Vec::new() });

struct Asked {
    /// The last password that opened a key. One user has one for the keyring, as a rule.
    password: Option<Password>,
    /// The keys that it does not open. Argon2 would take its time again for each file that names one.
    unopened: BTreeSet<KeyId>,
    /// The keys for which a wrong one was typed. Nobody is asked for it again.
    refused: Vec<KeyId>,
}

impl Asked {
    /// The password, if it may open a key.
    fn password_for(&self, id: &KeyId) -> Option<Password> {
        self.password.clone().filter(|_| !self.unopened.contains(id))
    }

    /// Another password has opened a key. It may open others.
    fn opened_by(&mut self, password: Password) {
        self.password = Some(password);
        self.unopened.clear();
    }
}

/// What may open a locked key.
struct Attempt<'a> {
    ways: Ways<'a>,
    password: Option<Password>,
}

impl KeySource for Attempt<'_> {
    fn key(&self, _: &KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(None)
    }

    fn password(&self) -> phalanx_core::Result<Option<Password>> {
        Ok(self.password.clone())
    }

    fn identity(
        &self,
        files: &[&[u8]],
        opens: &mut dyn FnMut(usize, &SecretKey) -> bool,
    ) -> phalanx_core::Result<Option<String>> {
        self.ways.identities.map_or(Ok(None), |identities| identities.identity(files, opens))
    }

    fn service(&self, uri: &str, wrapped: &[u8]) -> phalanx_core::Result<Option<SecretKey>> {
        self.ways.services.map_or(Ok(None), |services| services.unwrap(uri, wrapped))
    }
}
