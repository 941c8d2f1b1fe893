//! The manifest of a mirror: finding, opening and writing it.

use super::MANIFEST;
use super::listing::Listing;
use super::scan::OldManifest;
use super::state::Trees;
use crate::file::{Existing, InputFile, Made, Output, sink};
use crate::{Error, Result};
use phalanx_core::tree::{Contents, Digest, Head, Invalid, Manifest, Recorder};
use phalanx_core::{Error as CoreError, KeySource, NewFile, Opener, ReadAt, Reader, ReaderOptions, Roster, Source};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader};
use std::sync::Arc;

/// The manifest of a mirror as it is stored, opened.
pub struct Stored {
    file: Arc<File>,
    /// Its digest.
    pub digest: Digest,
}

/// The bytes of an opened file. Others may still write to it; the file is authentic or an error.
struct Bytes(Arc<File>);

impl ReadAt for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(&*self.0, buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        ReadAt::size(&*self.0)
    }
}

impl Stored {
    /// Looks for the manifest in the root of a mirror. `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be opened, or is no protected file.
    pub fn find(mirror: Arc<File>) -> Result<Option<Self>> {
        let file = match InputFile::open_in(mirror, OsStr::new(MANIFEST)) {
            Ok(input) => input.file().try_clone().map_err(Error::read)?,
            Err(Error::Core(CoreError::Read(e))) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let digest = Digest(Contents::read(&file)?.root);
        Ok(Some(Self { file: Arc::new(file), digest }))
    }

    /// Opens it, and reads its head.
    ///
    /// # Errors
    /// Those of [`Reader::open`], or [`Error::Manifest`] if it is no manifest.
    pub fn open<K: KeySource>(&self, opener: &Opener<K>, roster: Arc<Roster>) -> Result<(Head, OldManifest<'static>)> {
        let options = ReaderOptions::new().roster(roster);
        let reader = Reader::open_with(Bytes(self.file.clone()), opener, &options)?;
        let boxed: Box<dyn io::Read> = Box::new(BufReader::new(reader));
        Manifest::open(boxed).map_err(invalid)
    }

    /// Reads the copy that was kept on this machine when it was written.
    #[must_use]
    pub fn open_copy(&self, trees: &Trees) -> Option<(Head, OldManifest<'static>)> {
        let (tree, _) = trees.find(self.digest)?;
        let boxed: Box<dyn io::Read> = Box::new(BufReader::with_capacity(1 << 20, trees.copy(tree)?));
        Manifest::open(boxed).ok().filter(|(head, _)| head.tree == tree)
    }
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

/// Writes the manifest of a mirror, and gives it its name. Returns its digest.
///
/// # Errors
/// If it cannot be written. The old manifest is then in its place.
pub fn write(
    mirror: Arc<File>,
    listing: &Listing,
    head: &Head,
    new: NewFile,
    roster: &Roster,
    (mode, sync): (u32, bool),
) -> Result<Digest> {
    let made = Made::default();
    let output = Output::create_in(mirror, OsStr::new(MANIFEST), Existing::Replace(&made))?;
    let recorder = Recorder::new(&());
    let stream = listing.manifest(head).map_err(Error::write)?;
    new.protect(roster, Source::stream(stream), sink(output.file(), sync), &recorder)?;
    output.set_mode(mode)?;
    output.commit(Existing::Replace(&made), sync)?;
    let contents = recorder.contents().expect("all chunks were sealed");
    Ok(Digest(contents.root))
}
