//! The recipients of new files, and the keys that open files, as callers name them.

use crate::bytes::Bytes;
use crate::error;
use crate::key::KeyOrName;
use phalanx_core::{KdfLimit, Opener, Password, Recipient, SecretKey};
use phalanx_host::age;
use phalanx_host::hand::Hand;
use phalanx_host::key_files::note_file;
use phalanx_host::secrets::{Own, Recipients};
use phalanx_host::services::Services;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

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
    /// URIs of key services.
    pub kms: Vec<String>,
}

impl Keys {
    /// Those that open what they protect.
    fn own(&self, services: Services) -> Own {
        let keys = self.key.iter().chain(&self.keys).map(|key| SecretKey::clone(&key.0)).collect();
        Own { keys, password: self.password.as_ref().map(|password| password.0.clone()), services }
    }

    fn services(&self, py: Python<'_>) -> PyResult<Services> {
        Services::new("kms", &self.kms).map_err(|e| error::of_failure(py, &e))
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
    let services = keys.services(py)?;
    recipients_with(py, keys, texts, &services)
}

fn recipients_with(py: Python<'_>, keys: Keys, texts: &[String], services: &Services) -> PyResult<Vec<Recipient>> {
    let (keys, password) = keys.all();
    let mut found: Vec<_> = keys.iter().map(|key| Recipient::key(key)).collect();
    let others = py.detach(|| age::recipients("recipients", texts, &[])).map_err(|e| error::of_failure(py, &e))?;
    found.extend(others.into_iter().map(Recipient::from));
    if let Some(password) = password {
        found.push(py.detach(|| Recipient::password(&password)).map_err(|e| error::plain(py, e))?);
    }
    found.extend(py.detach(|| services.recipients()).map_err(|e| error::of_failure(py, &e))?);
    if found.is_empty() {
        return Err(PyValueError::new_err(
            "nothing would open it: name a key, a password, a recipient or a key service",
        ));
    }
    Ok(found)
}

/// The recipients of a mirror, and what of them opens it.
pub fn known(py: Python<'_>, keys: Keys, texts: &[String]) -> PyResult<Recipients> {
    let services = keys.services(py)?;
    let own = keys.own(services.clone());
    Ok(Recipients::known(recipients_with(py, keys, texts, &services)?, own))
}

/// An opener with the keys that a call names. If it names nothing at all, the keys of the keyring are used, and the services
/// of the user's file.
pub fn opener(py: Python<'_>, keys: Keys, identities: &[PathBuf]) -> PyResult<Opener<Hand>> {
    let services = keys.services(py)?;
    let (keys, password) = keys.all();
    identities.iter().for_each(|path| note_file(path));
    let identities = py.detach(|| age::identities(identities)).map_err(|e| error::of_failure(py, &e))?;
    let hand = Hand::new(keys, password, Arc::new(identities), services);
    Ok(Opener::new(hand, KdfLimit::default()))
}
