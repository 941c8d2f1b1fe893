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
        let mut failed = None;
        let open = keyring.find(id, |e| {
            if !matches!(e, Error::KeyLocked(_)) {
                failed = Some(e)
            }
        });
        let open = open.map(|found| found.map(|(name, _)| name));
        let found = open.and_then(|name| if name.is_some() { Ok(name) } else { keyring.locked_with(id) });
        let e = match (found, failed) {
            (Ok(Some(name)), _) => return KeyName::Is(name),
            (Ok(None), None) => return KeyName::Missing,
            (Ok(None), Some(e)) | (Err(e), _) => e,
        };
        if !self.is_told.swap(true, Ordering::Relaxed) {
            complain(format!("warning: not all keys of the keyring could be looked at for their names: {e}"));
        }
        KeyName::Unknown
    }
}
