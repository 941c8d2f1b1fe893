//! Where the keys at hand come from.

use crate::Result;
use crate::keys::id::KeyId;
use crate::keys::key::{Password, SecretKey};
use crate::keys::recipient::{AgeRecipient, Recipient};
use std::sync::Arc;

/// The source of the keys at hand. It is only asked for keys that a file can use. If it is asked again, it must give
/// the same answer.
pub trait KeySource {
    /// The named key with this id, if it is at hand.
    ///
    /// [`Error::KeysRefused`](crate::Error::KeysRefused) means that a key may be the right one but is not used. The file's other ways in are then
    /// tried.
    ///
    /// # Errors
    /// Any other error ends the search, and the file is not opened.
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>>;
    /// The named key with this id, if it is locked and somebody unlocks it now, who may be asked for a password. It is only looked
    /// for if no other key, identity or service has opened the file.
    ///
    /// [`Error::KeysRefused`](crate::Error::KeysRefused) means what it means for [`KeySource::key`].
    ///
    /// # Errors
    /// Any other error ends the search, and the file is not opened.
    fn locked_key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        let _ = id;
        Ok(None)
    }
    /// The password, if there is one; a command asks its user here.
    ///
    /// # Errors
    /// If there is a password but it cannot be read. The file is then not opened.
    fn password(&self) -> Result<Option<Password>>;
    /// Tries the age identities at hand on the age files in the file's slots.
    ///
    /// `opens` gets the place of an age file among `files` and the file key that was found in it. It returns whether
    /// that key opens the header. The first key that does ends the search, and the identity's name for its user is
    /// returned. `None` if no identity opens the header, or none is at hand.
    ///
    /// [`Error::KeysRefused`](crate::Error::KeysRefused) means that an identity may open the file but cannot be used.
    ///
    /// # Errors
    /// Any other error ends the search, and the file is not opened.
    fn identity(&self, files: &[&[u8]], opens: &mut dyn FnMut(usize, &SecretKey) -> bool) -> Result<Option<String>> {
        let _ = (files, opens);
        Ok(None)
    }
    /// The public key of an age identity at hand for whose canonical text `is_it` returns true. `None` if there is
    /// none, or if the identity does not have it, like those of plugins.
    fn age_recipient(&self, is_it: &dyn Fn(&str) -> bool) -> Option<Arc<dyn AgeRecipient>> {
        let _ = is_it;
        None
    }
    /// The run key that the key service with this URI wrapped as `wrapped`. `None` if the user has not named that
    /// service: it must not be asked then, since anybody can write a file that names it. It is called at most 8 times
    /// for one file with a URI that the user has named.
    ///
    /// [`Error::KeysRefused`](crate::Error::KeysRefused) means that the service did not unwrap it.
    ///
    /// # Errors
    /// Any other error ends the search, and the file is not opened.
    fn service(&self, uri: &str, wrapped: &[u8]) -> Result<Option<SecretKey>> {
        let _ = (uri, wrapped);
        Ok(None)
    }
    /// [`Recipient::service`] for a service that the user has named, under a new run key, for new files. `None` if the
    /// user has not named it.
    ///
    /// # Errors
    /// If the service does not wrap the run key.
    fn service_recipient(&self, uri: &str) -> Result<Option<Recipient>> {
        let _ = uri;
        Ok(None)
    }
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
