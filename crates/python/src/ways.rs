//! The recipients of new files, and the keys that open files, as callers name them.

use crate::bytes::Bytes;
use crate::error;
use crate::key::{self, KeyOrName};
use phalanx_age::Identities;
use phalanx_core::{KdfLimit, KeyId, KeySource, Opener, Password, Recipient, Result, SecretKey};
use phalanx_host::Keyring;
use phalanx_host::secret_files;
use phalanx_host::secrets::{Own, Recipients};
use phalanx_host::{age, secrets};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A password: text or bytes.
pub struct Secret(Password);

impl FromPyObject<'_, '_> for Secret {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let bytes = match object.extract::<&str>() {
            Ok(text) => text.as_bytes().to_vec(),
            Err(_) => match object.extract::<Bytes>() {
                Ok(bytes) => bytes.to_vec(),
                Err(_) => return Err(PyTypeError::new_err("a password is text or bytes")),
            },
        };
        if bytes.is_empty() {
            return Err(PyValueError::new_err("an empty password protects nothing"));
        }
        Ok(Self(Password::new(bytes)))
    }
}

/// The keys that a call names.
pub struct Keys {
    pub key: Option<KeyOrName>,
    pub keys: Vec<KeyOrName>,
    pub password: Option<Secret>,
}

impl Keys {
    /// Those that open what they protect.
    fn own(&self) -> Own {
        let keys = self.key.iter().chain(&self.keys).map(|key| SecretKey::clone(&key.0)).collect();
        Own { keys, password: self.password.as_ref().map(|password| password.0.clone()) }
    }

    /// All keys, each only once, and the password.
    fn all(self) -> (Vec<Arc<SecretKey>>, Option<Password>) {
        let mut keys: Vec<_> = self.key.into_iter().chain(self.keys).map(|key| key.0).collect();
        keys.sort_by_key(|key| key.id());
        keys.dedup_by_key(|key| key.id());
        (keys, self.password.map(|password| password.0))
    }
}

/// The recipients of a new file. With a password this takes long, because of Argon2.
pub fn recipients(py: Python<'_>, keys: Keys, texts: &[String]) -> PyResult<Vec<Recipient>> {
    let (keys, password) = keys.all();
    let mut found: Vec<_> = keys.iter().map(|key| Recipient::key(key)).collect();
    let others = py.detach(|| age::recipients("recipients", texts, &[])).map_err(|e| error::of_failure(py, &e))?;
    found.extend(others.into_iter().map(Recipient::from));
    if let Some(password) = password {
        found.push(py.detach(|| Recipient::password(&password)).map_err(|e| error::plain(py, e))?);
    }
    if found.is_empty() {
        return Err(PyValueError::new_err("nothing would open it: name a key, a password or a recipient"));
    }
    Ok(found)
}

/// The recipients of a mirror, and what of them opens it.
pub fn known(py: Python<'_>, keys: Keys, texts: &[String]) -> PyResult<Recipients> {
    let own = keys.own();
    Ok(Recipients::known(recipients(py, keys, texts)?, own))
}

/// An opener with the keys that a call names. If it names nothing at all, the keys of the keyring are used.
pub fn opener(py: Python<'_>, keys: Keys, identities: &[PathBuf]) -> PyResult<Opener<AtHand>> {
    let (keys, password) = keys.all();
    identities.iter().for_each(|path| key::note_file(path));
    let identities = py.detach(|| age::identities(identities)).map_err(|e| error::of_failure(py, &e))?;
    let is_none_given = keys.is_empty() && password.is_none() && identities.is_empty();
    let keyring = if is_none_given { secret_files::keyring().ok() } else { None };
    let at_hand = AtHand { keys, keyring, found: Mutex::default(), identities, password };
    Ok(Opener::new(at_hand, KdfLimit::default()))
}

/// The keys at hand.
pub struct AtHand {
    keys: Vec<Arc<SecretKey>>,
    keyring: Option<Keyring>,
    /// The keys that were found in the keyring. Each is looked up once.
    found: Mutex<Vec<Arc<SecretKey>>>,
    identities: Identities,
    password: Option<Password>,
}

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        if let Some(key) = self.keys.iter().find(|key| key.id() == *id) {
            return Ok(Some(SecretKey::clone(key)));
        }
        let Some(keyring) = &self.keyring else { return Ok(None) };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = found.iter().find(|key| key.id() == *id) {
            return Ok(Some(SecretKey::clone(key)));
        }
        let key = secrets::find_key(keyring, id)?.map(|(_, key)| Arc::new(key));
        found.extend(key.clone());
        Ok(key.map(|key| SecretKey::clone(&key)))
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(self.password.clone())
    }

    fn identity(&self, files: &[&[u8]], opens: &mut dyn FnMut(usize, &SecretKey) -> bool) -> Result<Option<String>> {
        self.identities.identity(files, opens)
    }
}
