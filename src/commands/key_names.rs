//! The names of keys in the keyring, for what says which keys open a file.

use phalanx_core::KeyId;
use phalanx_host::lines::complain;
use phalanx_host::{Error, Keyring, secret_files};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a key is in the keyring.
pub enum KeyName {
    /// It has this name there.
    Is(String),
    Missing,
    /// The keyring, or some key in it, cannot be read.
    Unknown,
}

/// The keyring, which is read only for names. So a machine without one can inspect files too.
pub struct KeyNames {
    keyring: Option<Keyring>,
    is_told: AtomicBool,
}

impl KeyNames {
    pub fn of_user() -> Self {
        Self { keyring: secret_files::keyring().ok(), is_told: AtomicBool::default() }
    }

    /// The name of a key. The first time that one cannot be found out, a warning says why.
    pub fn of(&self, id: &KeyId) -> KeyName {
        let Some(keyring) = &self.keyring else { return KeyName::Unknown };
        let mut is_read = true;
        let mut failed = |e: Error| {
            is_read = false;
            if !self.is_told.swap(true, Ordering::Relaxed) {
                complain(format!("warning: not all keys of the keyring could be looked at for their names: {e}"));
            }
        };
        let open = keyring.find(id, |e| {
            if !matches!(e, Error::KeyLocked(_)) {
                failed(e)
            }
        });
        let open = open.unwrap_or_else(|e| {
            failed(e);
            None
        });
        let name = open.map(|(name, _)| name).or_else(|| {
            keyring.locked_with(id).unwrap_or_else(|e| {
                failed(e);
                None
            })
        });
        match name {
            Some(name) => KeyName::Is(name),
            None if is_read => KeyName::Missing,
            None => KeyName::Unknown,
        }
    }
}
