//! Comparing the objects of a folder in a store with a manifest. Folders and links are in the manifest alone.

use super::{Check, Finding, Place, Wrong, last_chunk_of};
use crate::file::{ListedObject, ObjectFolder, unprotected_name};
use crate::lock::lock;
use crate::mirror::is_of_manifest;
use crate::mirror::listing::{Listing, NodeId};
use crate::outage::Outage;
use crate::{Error, Result};
use phalanx_core::tree::LastChunk;
use phalanx_core::{Error as CoreError, Progress};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// So many objects are looked at at the same time.
const AT_ONCE: usize = 32;

/// How closely objects are compared with the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Names and lengths, which the list of the store has. For objects of which all is read afterwards.
    Names,
    /// Last chunks too. Each takes a request or two.
    Chunks,
}

/// An object whose last chunk is read.
type Suspect<'a> = (Place, &'a str);
/// Its last chunk, and the length of its plaintext.
type Found = Result<(LastChunk, u64), Wrong>;

impl Check {
    /// Compares the objects of a folder with its manifest. Of those outside the folder `within` only the names are compared.
    /// Returns the listing, in which what is wrong is dropped, and the findings in the order of their paths.
    ///
    /// # Errors
    /// If the objects cannot be listed, the store fails again and again, or the work is cancelled.
    pub fn run_on_objects(
        folder: &dyn ObjectFolder,
        listing: Listing,
        (within, depth): (&Path, Depth),
        progress: &dyn Progress,
    ) -> Result<(Listing, Vec<Finding>)> {
        let objects = folder.list().map_err(Error::read)?;
        let mut check = Self::new(listing);
        let mut suspects = check.compare_names(&objects, depth);
        suspects.retain(|(_, name)| Path::new(name).starts_with(within));
        for (place, found) in read_all(folder, suspects, progress)? {
            check.settle(place, found);
        }
        Ok(check.finish())
    }

    /// Compares the names and lengths of all objects. Returns those whose last chunks are to be read.
    fn compare_names<'a>(&mut self, objects: &'a [ListedObject], depth: Depth) -> Vec<Suspect<'a>> {
        let (mut is_listed, mut suspects) = (vec![false; objects.len()], Vec::new());
        for id in self.listing.all() {
            let Some(stored_len) = self.listing.file(id).map(|file| file.stored_len) else { continue };
            let path = self.listing.stored_path(id);
            let name = path.as_os_str().as_encoded_bytes();
            match objects.binary_search_by(|object| object.name.as_bytes().cmp(name)) {
                Ok(at) => {
                    is_listed[at] = true;
                    // A change of its keys may have changed its length.
                    if depth == Depth::Chunks || objects[at].len != stored_len {
                        suspects.push((Place::Of(id), &*objects[at].name));
                    }
                }
                Err(_) => self.lose(id),
            }
        }
        let folders = LazyCell::new(|| folders_of(&self.listing));
        for object in objects.iter().zip(is_listed).filter(|(_, is_listed)| !is_listed).map(|(object, _)| object) {
            let path = PathBuf::from(&object.name);
            let is_marker = || object.len == 0 && folders.contains(&path);
            match path.file_name().and_then(unprotected_name) {
                _ if is_of_manifest(OsStr::new(&object.name)) || is_marker() => {}
                Some(_) => suspects.push((Place::At(path), &object.name)),
                None => self.findings.push(Finding { path, wrong: Wrong::Additional }),
            }
        }
        suspects
    }

    /// Compares what an object was found to hold.
    fn settle(&mut self, place: Place, found: Found) {
        match (place, found) {
            (Place::Of(id), Ok((last, len))) if self.holds(id, last, len) => {}
            (place, Ok((last, _))) => {
                if let Place::Of(id) = place {
                    self.drop_all(id);
                }
                self.strange.push((place, last));
            }
            (Place::Of(id), Err(Wrong::Missing)) => self.lose(id),
            (Place::Of(id), Err(wrong)) => {
                self.drop_all(id);
                self.find(id, wrong);
            }
            (Place::At(path), Err(_)) => self.findings.push(Finding { path, wrong: Wrong::Additional }),
        }
    }

    fn lose(&mut self, id: NodeId) {
        self.missing.push(id);
        self.drop_all(id);
    }
}

/// The paths of all folders. Some tools make an empty object for each.
fn folders_of(listing: &Listing) -> HashSet<PathBuf> {
    listing.all().filter(|id| listing.is_folder(*id)).map(|id| listing.stored_path(id)).collect()
}

/// Reads the last chunks of objects.
fn read_all<'a>(
    folder: &dyn ObjectFolder,
    suspects: Vec<Suspect<'a>>,
    progress: &dyn Progress,
) -> Result<Vec<(Place, Found)>> {
    let (threads, outage) = (suspects.len().min(AT_ONCE), Outage::default());
    let (left, done) = (Mutex::new(suspects.into_iter()), Mutex::new(Vec::new()));
    let work = || {
        while !progress.is_cancelled() && !outage.is_there() {
            let Some((place, name)) = lock(&left).next() else { return };
            let found = match folder.open(name) {
                Ok(object) => last_chunk_of(&object),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Wrong::Missing),
                Err(e) => Err(Wrong::Unreadable(Error::read(e))),
            };
            outage.note(if let Err(Wrong::Unreadable(e)) = &found { Some(e) } else { None });
            lock(&done).push((place, found));
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        work();
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)));
    });
    match () {
        () if progress.is_cancelled() => Err(CoreError::Cancelled.into()),
        () if outage.is_there() => Err(outage.error()),
        () => Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}
