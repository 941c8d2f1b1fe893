//! The root key, which seals every other secret of the server.

use crate::refusal::Refusal;
use crate::store::{KeyId, UserId};
use phalanx_core::UserKeys;
use phalanx_core::{SecretKey, Zeroizing};

/// The root key: the keys that are derived from it.
pub struct Root {
    /// Seals the secrets of versions and of buckets.
    secrets: SecretKey,
    /// Makes the names of users in the store.
    users: UserKeys,
}

impl Root {
    /// Derives the keys.
    pub fn new(root: &SecretKey) -> Self {
        let derive = |label: &[u8]| UserKeys::new(root, label);
        Self { secrets: derive(b"phalanx server v1 secrets").key(b""), users: derive(b"phalanx server v1 user id") }
    }

    /// Seals a secret for the store. `place` says what it is and where it lies.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn seal(&self, place: &[u8], secret: &SecretKey) -> Result<Vec<u8>, Refusal> {
        seal(&self.secrets, place, secret)
    }

    /// Opens a secret from the store.
    ///
    /// # Errors
    /// If it is not the one of this place, or not of this root key.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<SecretKey, Refusal> {
        open(&self.secrets, place, sealed)
    }

    /// The name of a user in the store.
    pub fn user_id(&self, key: &KeyId, user: &[u8]) -> UserId {
        *self.users.key(&[key, user].concat()).expose()
    }
}

/// Seals a secret under another one.
///
/// # Errors
/// If the system gives no random bytes.
pub fn seal(under: &SecretKey, place: &[u8], secret: &SecretKey) -> Result<Vec<u8>, Refusal> {
    phalanx_core::seal(under, secret.expose(), place).map_err(|e| Refusal::failed(e.to_string()))
}

/// Opens a secret that was sealed under another one.
///
/// # Errors
/// If it is not the one of this place.
pub fn open(under: &SecretKey, place: &[u8], sealed: &[u8]) -> Result<SecretKey, Refusal> {
    let damaged = || Refusal::failed("a secret in the store is damaged, or of another root key");
    let secret: Zeroizing<Vec<u8>> = phalanx_core::open(under, sealed, place).map_err(|_| damaged())?;
    SecretKey::from_slice(&secret).ok_or_else(damaged)
}
