//! Processing a whole file, given by its path, in one call.

use crate::Error;
use crate::file::{Carry, Ends, Input, OutputRules, umask};
use phalanx_core::{KeySource, NewFile, Opener, ProtectedFile, Recipient, Roster, Sink, Suite};
use std::path::Path;

/// Protects a file, with the default suite and on all cores. The output appears under its name when it is complete and
/// on the disk, or not at all. A file that has the name already stays, and is an error. Times, permissions and extended
/// attributes are carried over. Returns the plaintext's length in bytes.
///
/// ```standalone_crate
/// use phalanx_core::{KdfLimit, Opener, Recipient, SecretKey};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # std::env::set_current_dir(&dir)?;
/// # std::fs::write("run42.csv", "1,2,3")?;
/// let key = SecretKey::random()?;
/// phalanx_host::protect("run42.csv", "run42.csv.phx", &[Recipient::key(&key)])?;
/// phalanx_host::unprotect("run42.csv.phx", "back.csv", &Opener::new(key, KdfLimit::default()))?;
/// assert_eq!(std::fs::read_to_string("back.csv")?, "1,2,3");
/// # Ok(())
/// # }
/// ```
///
/// With another suite, chunk size or roster, use these steps. `&()` stands for no progress:
///
/// ```no_run
/// use phalanx_core::{ChunkSize, NewFile, Recipient, Roster, SecretKey, Suite};
/// use phalanx_host::file::{Ends, OutputRules};
///
/// # fn main() -> phalanx_host::Result<()> {
/// # let recipients = [Recipient::key(&SecretKey::random()?)];
/// let rules = OutputRules::default();
/// let ends = Ends::of_paths("run42.h5".as_ref(), "run42.h5.phx".as_ref(), &rules)?;
/// let size = ChunkSize::new(64 << 10).expect("a power of two from 4 KiB to 16 MiB");
/// let new = NewFile::with_chunk_size(Suite::Aes128CtrSha3, size, &recipients)?;
/// new.protect(&Roster::cpu(), ends.source()?, ends.sink(), &())?;
/// ends.commit(&rules)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Exists`] if there is a file of that name, [`Error::SameFile`] if it is the input itself.
/// [`Error::Read`](phalanx_core::Error::Read) or [`Error::Write`](phalanx_core::Error::Write) if an end cannot be
/// opened, read or written. Those of [`NewFile::new`], [`NewFile::protect`] and [`Ends::commit`].
pub fn protect(input: impl AsRef<Path>, output: impl AsRef<Path>, recipients: &[Recipient]) -> Result<u64, Error> {
    let rules = OutputRules::default();
    let ends = Ends::of_paths(input.as_ref(), output.as_ref(), &rules)?;
    let new = NewFile::new(Suite::default(), recipients)?;
    let len = new.protect(&Roster::cpu(), ends.source()?, ends.sink(), &())?;
    ends.commit(&rules)?;
    Ok(len)
}

/// Opens a protected file. The output appears under its name when all of it is authentic and on the disk, or not at
/// all. A file that has the name already stays, and is an error. Returns the plaintext's length in bytes. [`protect`]
/// has an example.
///
/// # Errors
/// [`Error::Exists`], [`Error::SameFile`], [`Error::Read`](phalanx_core::Error::Read) and
/// [`Error::Write`](phalanx_core::Error::Write) as for [`protect`]. Those of [`ProtectedFile::open`],
/// [`ProtectedFile::unprotect`] and [`Ends::commit`].
pub fn unprotect(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    keys: &Opener<impl KeySource>,
) -> Result<u64, Error> {
    let rules = OutputRules { carry: Carry::New { umask: umask() }, ..OutputRules::default() };
    let ends = Ends::of_paths(input.as_ref(), output.as_ref(), &rules)?;
    let file = ProtectedFile::open(ends.source()?, keys)?;
    let len = file.unprotect(&Roster::cpu(), ends.sink(), &())?;
    ends.commit(&rules)?;
    Ok(len)
}

/// Checks every chunk of a protected file, and writes nothing. Returns the plaintext's length in bytes.
///
/// # Errors
/// Those of [`Input::open`], [`ProtectedFile::open`] and [`ProtectedFile::unprotect`].
pub fn verify(path: impl AsRef<Path>, keys: &Opener<impl KeySource>) -> Result<u64, Error> {
    let input = Input::open(path.as_ref())?;
    Ok(ProtectedFile::open(input.source()?, keys)?.unprotect(&Roster::cpu(), Sink::Nothing, &())?)
}
