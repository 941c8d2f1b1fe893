//! The keys at hand of a program that uses Phalanx as a library: those that it names, or else those of the keyring.

use crate::file::Keyring;
use crate::secret_files;
use crate::secrets::find_key;
use crate::services::Services;
use phalanx_age::Identities;
use phalanx_core::{KeyId, KeySource, Password, Result, SecretKey};
use std::sync::{Arc, Mutex, PoisonError};

/// The keys at hand. Nothing of it asks the user for anything.
pub struct Hand {
    keys: Vec<Arc<SecretKey>>,
    keyring: Option<Keyring>,
    /// The keys that were found in the keyring. Each is looked up once.
    found: Mutex<Vec<Arc<SecretKey>>>,
    identities: Arc<Identities>,
    services: Services,
    password: Option<Password>,
}

impl Hand {
    /// What a caller names. If that is nothing at all, the keys of the keyring are at hand, and the services of the
    /// user's file.
    #[must_use]
    pub fn new(
        keys: Vec<Arc<SecretKey>>,
        password: Option<Password>,
        identities: Arc<Identities>,
        services: Services,
    ) -> Self {
        let is_empty = keys.is_empty() && password.is_none() && identities.is_empty() && services.is_empty();
        let keyring = if is_empty { secret_files::keyring().ok() } else { None };
        let services = if is_empty { services.or_configured() } else { services };
        Self { keys, keyring, found: Mutex::default(), identities, services, password }
    }
}

impl KeySource for Hand {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        if let Some(key) = self.keys.iter().find(|key| key.id() == *id) {
            return Ok(Some(SecretKey::clone(key)));
        }
        let Some(keyring) = &self.keyring else { return Ok(None) };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = found.iter().find(|key| key.id() == *id) {
            return Ok(Some(SecretKey::clone(key)));
        }
        let key = find_key(keyring, id)?.map(|(_, key)| Arc::new(key));
        found.extend(key.clone());
        Ok(key.map(|key| SecretKey::clone(&key)))
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(self.password.clone())
    }

    fn identity(&self, files: &[&[u8]], opens: &mut dyn FnMut(usize, &SecretKey) -> bool) -> Result<Option<String>> {
        self.identities.identity(files, opens)
    }

    fn service(&self, uri: &str, wrapped: &[u8]) -> Result<Option<SecretKey>> {
        self.services.unwrap(uri, wrapped)
    }
}
