//! The manifest of a mirror: finding, opening and writing it.

use super::MANIFEST;
use super::listing::Listing;
use super::root::Root;
use super::scan::OldManifest;
use super::state::Trees;
use super::steady::Steady;
use crate::file::{Existing, InputFile, Made, NewObject, ObjectFolder, Output, sink};
use crate::{Error, Result};
use phalanx_core::tree::{Contents, Digest, Head, Invalid, Manifest, Recorder, Signed, SignedText};
use phalanx_core::{
    Error as CoreError, KeySource, NewFile, Opener, ReadAt, Reader, ReaderOptions, Roster, Sink, Source,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::sync::Arc;

/// A longer file is read to its end before its digest is made. So one that consists of holes is refused where the first is.
const LONG: u64 = 64 << 20;

/// The manifest of a mirror as it is stored. Its digest is that of what is opened, also if others write to it meanwhile.
pub struct Stored {
    bytes: Arc<Steady>,
    /// The version of the object, if it is one.
    pub version: Option<String>,
}

impl Stored {
    /// Looks for the manifest in the root of a mirror. `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be opened. Its content is not looked at.
    pub fn find(mirror: &Root) -> Result<Option<Self>> {
        let found = match mirror {
            Root::Folder(folder) => InputFile::open_in(folder.clone(), OsStr::new(MANIFEST))
                .and_then(|input| Self::new(input.file().try_clone().map_err(Error::read)?)),
            Root::Objects(objects) => objects.open(MANIFEST).map_err(Error::read).and_then(|object| {
                let version = Some(object.version());
                Ok(Self { version, ..Self::new(object)? })
            }),
        };
        match found {
            Err(Error::Core(CoreError::Read(e))) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// A stored manifest, wherever it lies.
    ///
    /// # Errors
    /// If its length cannot be read.
    pub fn new(stored: impl ReadAt + Send + Sync + 'static) -> Result<Self> {
        Ok(Self { bytes: Arc::new(Steady::new(stored).map_err(Error::read)?), version: None })
    }

    /// Opens it, and reads its head.
    ///
    /// # Errors
    /// Those of [`Reader::open`], or [`Error::Manifest`] if it is no manifest.
    pub fn open<K: KeySource>(&self, opener: &Opener<K>, roster: Arc<Roster>) -> Result<(Head, OldManifest<'static>)> {
        let options = ReaderOptions::new().roster(roster);
        let mut reader = Reader::open_with(self.bytes.clone(), opener, &options)?;
        self.bytes.keep_heads_of(&reader);
        if reader.len() > LONG {
            io::copy(&mut reader, &mut io::sink()).and_then(|_| reader.rewind()).map_err(|e| invalid(e.into()))?;
        }
        let boxed: Box<dyn io::Read> = Box::new(BufReader::new(reader));
        Manifest::open(boxed).map_err(invalid)
    }

    /// Its digest. A file that no key opens may be anything.
    ///
    /// # Errors
    /// If it cannot be read, or is no protected file.
    pub fn digest(&self) -> Result<Digest> {
        Ok(Digest(Contents::read(&self.bytes)?.root))
    }

    /// What a signature of it is made of: [`SignedText::read`].
    ///
    /// # Errors
    /// As for [`Stored::digest`].
    pub fn signed_text(&self) -> Result<Option<SignedText>> {
        Ok(SignedText::read(&self.bytes, Signed::Tree, |_| {})?)
    }

    /// Reads the copy that was kept on this machine when it was written.
    #[must_use]
    pub fn open_copy(&self, trees: &Trees) -> Option<(Head, OldManifest<'static>)> {
        if self.bytes.size().ok()? > longest_of(trees.longest_copy()?) {
            return None;
        }
        let (tree, _) = trees.find(self.digest().ok()?)?;
        let boxed: Box<dyn io::Read> = Box::new(BufReader::with_capacity(1 << 20, trees.copy(tree)?));
        Manifest::open(boxed).ok().filter(|(head, _)| head.tree == tree)
    }
}

/// More than the length of any file that holds a plaintext of this length.
fn longest_of(plaintext: u64) -> u64 {
    plaintext.saturating_mul(2).saturating_add(1 << 20)
}

/// Why a manifest cannot be read.
#[must_use]
pub fn invalid(error: Invalid) -> Error {
    match error {
        Invalid::Io(e) => match e.downcast::<CoreError>() {
            Ok(error) => Error::Core(error),
            Err(e) => Error::read(e),
        },
        other => Error::Manifest(other),
    }
}

/// Whether a manifest cannot be used because of what it is, and not because something failed that may work the next time.
#[must_use]
pub fn is_of_content(error: &Error) -> bool {
    use CoreError::{
        Altered, Extended, Header, KdfLimit, NoKey, NotPhalanx, Read, Truncated, Version, Volume, WrongKey,
    };
    match error {
        Error::Core(Read(e)) => e.raw_os_error().is_none(),
        Error::Core(error) => matches!(
            error,
            NotPhalanx
                | Version(_)
                | Header(_)
                | Volume
                | KdfLimit(_)
                | NoKey { .. }
                | WrongKey
                | Altered { .. }
                | Truncated(_)
                | Extended(_)
        ),
        Error::Manifest(invalid) => !matches!(invalid, Invalid::Io(_)),
        Error::Interrupted(error) => is_of_content(error),
        _ => false,
    }
}

/// Whether a manifest cannot be used until it is moved away. An error of reading never says that: those of stores have no number.
#[must_use]
pub fn is_unusable(error: &Error) -> bool {
    !matches!(error, Error::Core(CoreError::Read(_))) && is_of_content(error)
}

/// What was written as a manifest, whatever lies in its place by now.
#[derive(Clone, Copy)]
pub struct Written {
    /// Its digest.
    pub digest: Digest,
    /// What a signature of it is made of. `None` if it is in suite 4, which nobody writes.
    pub signed: Option<SignedText>,
}

/// Hears of a manifest that is written, before it has its name.
pub type Note<'a> = &'a dyn Fn(&Written) -> Result<()>;

/// Writes the manifest of a mirror, and gives it its name. `note` gets what was written before it has its name, so that it is
/// known whenever the run is killed. If that fails, it gets no name.
///
/// # Errors
/// If it cannot be written. The old manifest is then in its place.
pub fn write(
    mirror: Arc<File>,
    listing: &Listing,
    head: &Head,
    new: NewFile,
    (roster, note): (&Roster, Note<'_>),
    (mode, sync): (u32, bool),
) -> Result<Written> {
    let made = Made::default();
    let output = Output::create_in(mirror, OsStr::new(MANIFEST), Existing::Replace(&made))?;
    let written = seal(listing, head, new, roster, sink(output.file(), sync))?;
    output.set_mode(mode)?;
    note(&written)?;
    output.commit(Existing::Replace(&made), sync)?;
    Ok(written)
}

/// Writes the manifest of a mirror in a store. `before` is the version of the one that it replaces, and `note` as for [`write()`].
///
/// # Errors
/// If it cannot be written, or another run has written one meanwhile. The old manifest is then in its place.
pub fn write_object(
    mirror: &dyn ObjectFolder,
    listing: &Listing,
    head: &Head,
    new: NewFile,
    (roster, note): (&Roster, Note<'_>),
    before: Option<&str>,
) -> Result<Written> {
    let object = NewObject { replaces: before.is_some(), ..NewObject::default() };
    let object = mirror.create(MANIFEST, object).map_err(Error::write)?;
    let sealed = seal(listing, head, new, roster, Sink::ranged(&*object))?;
    note(&sealed)?;
    let written = match before {
        Some(version) => object.commit_over(version),
        None => object.commit(),
    };
    written.map_err(Error::write)?;
    Ok(sealed)
}

/// Protects a manifest.
fn seal(listing: &Listing, head: &Head, new: NewFile, roster: &Roster, sink: Sink<'_>) -> Result<Written> {
    let recorder = Recorder::new(&());
    let shape = (new.suite(), new.chunk_size());
    let stream = listing.manifest(head).map_err(Error::write)?;
    let len = new.protect(roster, Source::stream(stream), sink, &recorder)?;
    let contents = recorder.contents().expect("all chunks were sealed");
    Ok(Written { digest: Digest(contents.root), signed: SignedText::new(Signed::Tree, shape, len, &contents) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::engine::Fault;

    #[test]
    fn what_fails_for_the_moment_is_no_reason_to_move_a_manifest_away() {
        let fault = Fault { engine: "gpu".into(), reason: "it fell off".into() };
        let moment = [
            CoreError::KdfMemory(65_536),
            CoreError::Memory("16 MiB".into()),
            CoreError::Changed,
            CoreError::Cancelled,
            CoreError::Fault(fault),
            CoreError::Read(io::Error::other("the store is away")),
            CoreError::Read(io::Error::from_raw_os_error(5)),
        ];
        for error in moment {
            assert!(!is_unusable(&Error::Core(error)));
        }
        let altered = CoreError::Altered { chunk: 1, last: false };
        for error in [Error::Core(altered), Error::Core(CoreError::NotPhalanx), Error::Manifest(Invalid::Version)] {
            assert!(is_unusable(&error), "{error}");
        }
    }
}
