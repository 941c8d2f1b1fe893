//! Making and opening age files that hold a file key, with the crate `age` and within bounds.

use crate::outline::Outline;
use age::{Decryptor, EncryptError, Encryptor};
use phalanx_core::SecretKey;
use std::cell::Cell;
use std::io::{Read, Write};
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zeroize::Zeroizing;

/// An age file for one recipient, whose payload is the file key.
pub fn wrap(recipient: &dyn age::Recipient, file_key: &SecretKey) -> Result<Vec<u8>, String> {
    let made = guarded(|| -> Result<_, EncryptError> {
        let mut file = Vec::with_capacity(1024);
        let mut output = Encryptor::with_recipients(iter::once(recipient))?.wrap_output(&mut file)?;
        output.write_all(file_key.expose())?;
        output.finish()?;
        Ok(file)
    });
    let file = made.ok_or("the crate age failed")?.map_err(|e| match e {
        EncryptError::Io(e) => e.to_string(),
        _ => "age refuses the recipient".into(),
    })?;
    // A plugin may make a file that no reader accepts.
    Outline::of(&file).map_err(|why| format!("what was made for it is {why}"))?;
    Ok(file)
}

/// The file key in an age file, if this identity opens it. The outline of the file was checked before.
pub fn unwrap(file: &[u8], identity: &dyn age::Identity) -> Option<SecretKey> {
    guarded(|| {
        let mut payload = Decryptor::new_buffered(file).ok()?.decrypt(iter::once(identity)).ok()?;
        let mut key = Zeroizing::new([0; 32]);
        payload.read_exact(&mut *key).ok()?;
        // The end is authenticated too.
        (payload.read(&mut [0]).ok()? == 0).then(|| SecretKey::from_slice(&*key))?
    })?
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in the crate `age`, with data that may be damaged. A panic there is caught, and means that
/// the data are damaged. A panic hook that reports a bug to the user checks this first.
#[must_use]
pub fn catches_panics() -> bool {
    // While a thread ends, its variables may be gone: nothing is guarded then.
    GUARDED.try_with(Cell::get).unwrap_or(false)
}

/// Calls the crate `age`; `None` if it panics. The crate gets no mutable access to anything that is used after a panic.
pub(crate) fn guarded<T>(act: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(act)).ok();
    GUARDED.set(before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use age_core::format::{FileKey, Stanza};
    use std::collections::HashSet;

    struct Panics;

    impl age::Identity for Panics {
        fn unwrap_stanza(&self, _: &Stanza) -> Option<Result<FileKey, age::DecryptError>> {
            panic!("a test")
        }
    }

    impl age::Recipient for Panics {
        fn wrap_file_key(&self, _: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), EncryptError> {
            panic!("a test")
        }
    }

    #[test]
    fn a_panic_is_a_failure() {
        let key = SecretKey::from_slice(&[7; 32]).unwrap();
        let identity = age::x25519::Identity::generate();
        let file = wrap(&identity.to_public(), &key).unwrap();
        assert!(unwrap(&file, &Panics).is_none());
        assert_eq!(wrap(&Panics, &key).unwrap_err(), "the crate age failed");
        assert!(unwrap(&file, &identity).unwrap().matches(&key));
    }

    #[test]
    fn a_panic_hook_knows_which_panics_are_caught() {
        assert!(!catches_panics());
        assert_eq!(guarded(|| (guarded(catches_panics), catches_panics())), Some((Some(true), true)));
        assert!(!catches_panics());
        assert_eq!(guarded(|| (guarded(|| panic!("a test")), catches_panics())), Some((None::<()>, true)));
        assert!(!catches_panics());
        assert_eq!(guarded(|| std::thread::spawn(catches_panics).join().unwrap()), Some(false));
    }

    #[test]
    fn only_a_payload_of_32_bytes_is_a_file_key() {
        let identity = age::x25519::Identity::generate();
        for len in [0, 31, 32, 33, 64, 70_000] {
            let file = age::encrypt(&identity.to_public(), &vec![7; len]).unwrap();
            assert_eq!(unwrap(&file, &identity).is_some(), len == 32, "{len}");
            assert_eq!(Outline::of(&file).is_ok(), len == 32, "{len}");
        }
    }
}
