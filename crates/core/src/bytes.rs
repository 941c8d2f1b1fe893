//! Four calls on bytes in memory.
//!
//! [`protect`] makes a protected file, which [`unprotect`] opens. [`seal`] makes a message, which [`open`] opens: it is
//! shorter, has one key, and can be bound to a context.

use crate::batch::{self, Copied};
use crate::cpu::{CpuEngine, Levels};
use crate::file::protected::{NewFile, ProtectedFile};
use crate::file::source::{Sink, Source};
use crate::keys::access::Opener;
use crate::keys::key::SecretKey;
use crate::keys::recipient::Recipient;
use crate::keys::source::KeySource;
use crate::roster::Roster;
use crate::{Error, Result, Suite};
use std::sync::{Arc, LazyLock};
use zeroize::Zeroizing;

/// A roster of one core. One message is not enough work for several.
static ONE_CORE: LazyLock<Roster> = LazyLock::new(|| Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))]));

/// Protects bytes for recipients, as a whole protected file with the default suite.
///
/// ```
/// use phalanx_core::{KdfLimit, Opener, Recipient, SecretKey, protect, unprotect};
///
/// let key = SecretKey::random()?;
/// let stored = protect(b"the plan", &[Recipient::key(&key)])?;
/// assert_eq!(**unprotect(&stored, &Opener::new(key, KdfLimit::default()))?, *b"the plan");
/// # Ok::<(), phalanx_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`NewFile::new`] and [`NewFile::protect`].
pub fn protect(plaintext: &[u8], recipients: &[Recipient]) -> Result<Vec<u8>> {
    let new = NewFile::new(Suite::default(), recipients)?;
    let chunks = plaintext.len() / new.chunk_size().bytes() + 1;
    let mut protected = Vec::with_capacity(4096 + plaintext.len() + chunks * new.suite().overhead());
    new.protect(&Roster::cpu(), Source::ranged(plaintext), Sink::stream(&mut protected), &())?;
    Ok(protected)
}

/// Opens a protected file in memory. [`protect`] has an example.
///
/// # Errors
/// Those of [`ProtectedFile::open`] and [`ProtectedFile::unprotect`].
pub fn unprotect(protected: &[u8], keys: &Opener<impl KeySource>) -> Result<Zeroizing<Vec<u8>>> {
    // With this capacity the vector is never moved. Moving it would leave a copy that is not wiped.
    let mut plaintext = Zeroizing::new(Vec::with_capacity(protected.len()));
    let file = ProtectedFile::open(Source::ranged(protected), keys)?;
    file.unprotect(&Roster::cpu(), Sink::stream(&mut *plaintext), &())?;
    Ok(plaintext)
}

/// Seals a message under a key, with the default suite. It opens only with the same associated data, which is not
/// stored. The associated data say what the message belongs to, such as a table and a row. Many messages are sealed in
/// one call by [`batch::seal`].
///
/// ```
/// use phalanx_core::{Error, SecretKey, open, seal};
///
/// let key = SecretKey::random()?;
/// let stored = seal(&key, b"Ada's record", b"users/1")?;
/// assert_eq!(**open(&key, &stored, b"users/1")?, *b"Ada's record");
/// assert!(matches!(open(&key, &stored, b"users/2"), Err(Error::NotAuthentic { .. })));
/// # Ok::<(), phalanx_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`batch::seal`].
pub fn seal(key: &SecretKey, plaintext: &[u8], associated_data: &[u8]) -> Result<Vec<u8>> {
    let suite = Suite::default();
    let mut message = vec![0; plaintext.len() + suite.overhead()];
    let input = Copied { key: key.into(), ad: associated_data, bytes: plaintext };
    batch::seal_into(&ONE_CORE, suite, &[input], &mut message)?;
    Ok(message)
}

/// Opens a message. [`seal`] has an example.
///
/// # Errors
/// [`Error::NotAuthentic`] if the key, the message or the associated data differ from those of [`seal`], or if the
/// message is too short. Those of [`batch::open`].
pub fn open(key: &SecretKey, message: &[u8], associated_data: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let suite = Suite::default();
    let mut opened = Zeroizing::new(vec![0; message.len()]);
    let input = Copied { key: key.into(), ad: associated_data, bytes: message };
    let places = batch::open_into(&ONE_CORE, suite, &[input], &mut opened)?;
    let Some(place) = places.into_iter().next().flatten() else { return Err(Error::NotAuthentic { failed: vec![0] }) };
    opened.copy_within(place.clone(), 0);
    opened.truncate(place.len());
    Ok(opened)
}
