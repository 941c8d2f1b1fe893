//! The ways into a file: what a new one is protected for, and what is tried on a protected one.

use crate::error::{self, Error, Result};
use crate::key::Key;
use crate::memory::{bytes, free, give, object, object_mut, path, text};
use phalanx_age::Identities;
use phalanx_core::{KdfLimit, Opener, Password, Recipient, SecretKey};
use phalanx_host::age;
use phalanx_host::hand::Hand;
use phalanx_host::key_files::note_file;
use phalanx_host::services::Services;
use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::Arc;

/// The ways into files that a program names: keys, passwords, public keys, identities and key services. Those that open a
/// file are tried on it; new files are protected for all but the identities.
#[derive(Default)]
pub struct Ways {
    keys: Vec<Arc<SecretKey>>,
    password: Option<Password>,
    recipients: Vec<String>,
    identity_files: Vec<PathBuf>,
    identities: Option<Arc<Identities>>,
    services: Vec<String>,
}

impl Ways {
    /// The recipients of a new file. With a password this takes long, because of Argon2.
    pub fn recipients(&self) -> Result<Vec<Recipient>> {
        let mut found: Vec<_> = self.keys.iter().map(|key| Recipient::key(key)).collect();
        found.extend(age::recipients("recipients", &self.recipients, &[])?.into_iter().map(Recipient::from));
        if let Some(password) = &self.password {
            found.push(Recipient::password(password)?);
        }
        found.extend(self.services()?.recipients()?);
        if found.is_empty() {
            return Err(Error::usage("nothing would open it: add a key, a password, a recipient or a key service"));
        }
        Ok(found)
    }

    /// What is tried on a file.
    pub fn opener(&self) -> Result<Opener<Hand>> {
        let identities = match &self.identities {
            Some(identities) => identities.clone(),
            None => Arc::new(age::identities(&[])?),
        };
        let hand = Hand::new(self.keys.clone(), self.password.clone(), identities, self.services()?);
        Ok(Opener::new(hand, KdfLimit::default()))
    }

    fn services(&self) -> Result<Services> {
        Ok(Services::new("kms", &self.services)?)
    }
}

/// What the ways at a pointer open. Null stands for the keyring.
///
/// # Safety
/// It is null or leads to ways that live, and that nobody changes, for `'a`.
pub unsafe fn opener(ways: *const Ways) -> Result<Opener<Hand>> {
    let none = Ways::default();
    // SAFETY: the caller's promise.
    let ways = unsafe { ways.as_ref() }.unwrap_or(&none);
    ways.opener()
}

/// No ways yet. If nothing is added that opens files, they open by the keys of the keyring, as with the command.
///
/// # Safety
/// `ways` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_ways_new(ways: *mut *mut Ways) -> *mut Error {
    // SAFETY: the caller's promise.
    error::run(|| unsafe { give(ways, Ways::default(), "ways") })
}

/// Adds a key. The caller may free its own afterwards.
///
/// # Safety
/// `ways` are ways that were not freed, and `key` is a key that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_ways_add_key(ways: *mut Ways, key: *const Key) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (ways, key) = unsafe { (object_mut(ways, "ways")?, object(key, "key")?) };
        if !ways.keys.iter().any(|other| other.id() == key.0.id()) {
            ways.keys.push(Arc::new(key.0.clone()));
        }
        Ok(())
    })
}

/// Sets the password: any bytes but none. The caller wipes its own copy.
///
/// # Safety
/// `ways` are ways that were not freed, and `password` leads to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_ways_set_password(ways: *mut Ways, password: *const u8, len: usize) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (ways, password) = unsafe { (object_mut(ways, "ways")?, bytes(password, len, "password")?) };
        if password.is_empty() {
            return Err(Error::usage("an empty password protects nothing"));
        }
        ways.password = Some(Password::new(password.to_vec()));
        Ok(())
    })
}

/// Adds a public key of age ("age1…") or SSH ("ssh-ed25519 …"), for new files.
///
/// # Safety
/// `ways` are ways that were not freed, and `recipient` is a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_ways_add_recipient(ways: *mut Ways, recipient: *const c_char) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (ways, recipient) = unsafe { (object_mut(ways, "ways")?, text(recipient, "recipient")?) };
        let found = age::recipient_text("recipient", recipient)?;
        ways.recipients.push(found);
        Ok(())
    })
}

/// Adds a file of identities of age, or of a private key of SSH, to open files with. No output of this process replaces it.
///
/// # Safety
/// `ways` are ways that were not freed, and `path` is a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_ways_add_identity_file(ways: *mut Ways, path: *const c_char) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (ways, path) = unsafe { (object_mut(ways, "ways")?, self::path(path, "path")?) };
        let mut files = ways.identity_files.clone();
        files.push(path.to_owned());
        ways.identities = Some(Arc::new(age::identities(&files)?));
        note_file(path);
        ways.identity_files = files;
        Ok(())
    })
}

/// Adds the URI of a key service, as the command's --kms takes it. It is asked only where a file needs it.
///
/// # Safety
/// `ways` are ways that were not freed, and `uri` is a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_ways_add_service(ways: *mut Ways, uri: *const c_char) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (ways, uri) = unsafe { (object_mut(ways, "ways")?, text(uri, "uri")?) };
        let mut services = ways.services.clone();
        services.push(uri.to_owned());
        Services::new("kms", &services)?;
        ways.services = services;
        Ok(())
    })
}

/// Wipes and frees ways. Null is allowed.
///
/// # Safety
/// `ways` is null, or ways that were not freed. They are not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_ways_free(ways: *mut Ways) {
    // SAFETY: the caller's promise.
    unsafe { free(ways) }
}
