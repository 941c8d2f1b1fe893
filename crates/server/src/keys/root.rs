//! The root key, which seals every other secret of the server.

use crate::refusal::Refusal;
use crate::store::{KeyId, UserId};
use phalanx_core::batch::{self, Copied};
use phalanx_core::{Roster, SecretKey, Suite, UserKeys, Zeroizing};

/// The root key: the keys that are derived from it.
pub struct Root {
    /// Seals the secrets of versions and of buckets.
    secrets: SecretKey,
    /// Makes the names of users in the store.
    users: UserKeys,
    /// Names this root key.
    #[cfg(feature = "postgres")]
    mark: SecretKey,
    /// Authenticates records.
    records: UserKeys,
}

impl Root {
    /// Derives the keys.
    pub fn new(root: &SecretKey) -> Self {
        let derive = |label: &[u8]| UserKeys::new(root, label);
        Self {
            secrets: derive(b"phalanx server v1 secrets").key(b""),
            users: derive(b"phalanx server v1 user id"),
            #[cfg(feature = "postgres")]
            mark: derive(b"phalanx server v1 mark of the root key").key(b""),
            records: derive(b"phalanx server v1 record"),
        }
    }

    /// The key under which secrets are sealed.
    pub fn secrets(&self) -> &SecretKey {
        &self.secrets
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

    /// A public name of the root key, from which nothing of the key can be learnt.
    #[cfg(feature = "postgres")]
    pub fn mark(&self) -> [u8; 32] {
        *self.mark.expose()
    }

    /// Authenticates bytes of the store.
    pub(super) fn mac(&self, bytes: &[u8]) -> [u8; 32] {
        *self.records.key(bytes).expose()
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
    let secret: Zeroizing<Vec<u8>> = phalanx_core::open(under, sealed, place).map_err(|_| damaged())?;
    SecretKey::from_slice(&secret).ok_or_else(damaged)
}

/// The refusal of a secret that cannot be opened.
pub fn damaged() -> Refusal {
    Refusal::failed("a secret in the store is damaged, or of another root key")
}

/// A secret that was sealed, or is to be sealed, under another one.
pub struct Under<'a> {
    /// The other one.
    pub key: &'a SecretKey,
    /// What it is, and where it lies.
    pub place: &'a [u8],
    /// The sealed secret, or the secret.
    pub bytes: &'a [u8],
}

impl<'a> Under<'a> {
    fn copied(&self) -> Copied<'a> {
        Copied { key: self.key.into(), ad: self.place, bytes: self.bytes }
    }
}

/// Opens many secrets side by side. `None` is one that is not of its place.
///
/// # Errors
/// If the engines fail.
pub fn open_each(roster: &Roster, secrets: &[Under<'_>]) -> Result<Vec<Option<SecretKey>>, Refusal> {
    let copied: Vec<_> = secrets.iter().map(Under::copied).collect();
    let mut out = Zeroizing::new(vec![0; secrets.iter().map(|secret| secret.bytes.len()).sum()]);
    let opened = batch::open_into(roster, Suite::default(), &copied, &mut out).map_err(failed)?;
    Ok(opened.into_iter().map(|place| SecretKey::from_slice(&out[place?])).collect())
}

/// Seals many secrets side by side.
///
/// # Errors
/// If the engines fail, or the system gives no random bytes.
pub fn seal_each(roster: &Roster, secrets: &[Under<'_>]) -> Result<Vec<Vec<u8>>, Refusal> {
    let suite = Suite::default();
    let copied: Vec<_> = secrets.iter().map(Under::copied).collect();
    let mut out = Zeroizing::new(vec![0; secrets.iter().map(|secret| suite.overhead() + secret.bytes.len()).sum()]);
    let sealed = batch::seal_into(roster, suite, &copied, &mut out).map_err(failed)?;
    Ok(sealed.into_iter().map(|place| out[place].to_vec()).collect())
}

fn failed(error: phalanx_core::Error) -> Refusal {
    Refusal::failed(error.to_string())
}
