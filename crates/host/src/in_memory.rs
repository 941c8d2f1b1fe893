//! Short data protected and unprotected in memory: lists of keys, and locked keys.

use crate::Result;
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{KeySource, NewFile, Opener, ProtectedFile, Recipient, Roster, Sink, Source, Suite};
use std::sync::Arc;
use zeroize::Zeroizing;

fn one_thread() -> Roster {
    Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))])
}

/// The data as a protected file.
///
/// # Errors
/// Those of [`NewFile::new`] and [`NewFile::protect`].
pub fn protect(plain: &[u8], recipients: &[Recipient]) -> Result<Vec<u8>> {
    let mut protected = Vec::new();
    let sink = Sink::Stream(Box::new(&mut protected));
    NewFile::new(Suite::default(), recipients)?.protect(&one_thread(), Source::stream(plain), sink, &())?;
    Ok(protected)
}

/// The plaintext of a protected file, in memory that does not grow, because growing would leave copies in freed memory.
///
/// # Errors
/// Those of [`ProtectedFile::open`] and [`ProtectedFile::unprotect`].
pub fn unprotect(protected: &[u8], opener: &Opener<impl KeySource>) -> Result<Zeroizing<Vec<u8>>> {
    let file = ProtectedFile::open(Source::stream(protected), opener)?;
    // The plaintext is shorter than its file.
    let mut plain = Zeroizing::new(vec![0; protected.len()]);
    let len = file.unprotect(&one_thread(), Sink::Stream(Box::new(&mut plain[..])), &())?;
    plain.truncate(len as usize);
    Ok(plain)
}
