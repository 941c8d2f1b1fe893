//! The stores, as programs of Phalanx use them.

use crate::folder::Folder;
use crate::object::Object;
use crate::options::Options;
use crate::upload::{self, Upload};
use phalanx_host::file::{InputObject, NewObject, ObjectFolder, Obstacle, OutputObject, Url};
use std::io;
use std::sync::Arc;

/// All stores that this crate can reach: a program gives them to
/// [`install_stores`](phalanx_host::file::install_stores).
#[derive(Debug, Default)]
pub struct Stores(Options);

impl Stores {
    /// The stores, with what a caller says about them.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self(options)
    }

    fn is_folder(&self, url: &Url) -> bool {
        Folder::at(url, &self.0).and_then(|folder| folder.has_objects()).unwrap_or(false)
    }
}

impl phalanx_host::file::Stores for Stores {
    fn open(&self, url: &Url) -> io::Result<Arc<dyn InputObject>> {
        match Object::at(url, &self.0) {
            Ok(object) => Ok(Arc::new(object)),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.is_folder(url) => Err(Obstacle::Objects.into()),
            Err(e) => Err(e),
        }
    }

    fn create(&self, url: &Url, new: NewObject) -> io::Result<Box<dyn OutputObject>> {
        Ok(Box::new(Upload::at(url, new, &self.0)?))
    }

    fn folder(&self, url: &Url) -> io::Result<Arc<dyn ObjectFolder>> {
        Ok(Arc::new(Folder::at(url, &self.0)?))
    }

    fn abort(&self, url: &Url, is_folder: bool) -> io::Result<u64> {
        upload::abort(url, is_folder, &self.0)
    }

    fn give_up(&self) {
        upload::give_up_all();
    }
}
