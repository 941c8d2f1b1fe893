//! The root of a mirror: an open folder, or a folder of objects in a store.

use super::there::There;
use crate::Result;
use crate::file::ObjectFolder;
use std::fs::File;
use std::sync::Arc;

/// The root of a mirror.
#[derive(Clone, Debug)]
pub enum Root {
    /// An open folder.
    Folder(Arc<File>),
    /// Objects in a store.
    Objects(Arc<dyn ObjectFolder>),
}

impl Root {
    /// The open folder, if it is one.
    #[must_use]
    pub fn folder(&self) -> Option<&Arc<File>> {
        if let Root::Folder(folder) = self { Some(folder) } else { None }
    }

    /// What lies in it.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn there(&self) -> Result<There> {
        match self {
            Root::Folder(folder) => There::folder(Some(folder.try_clone().map_err(crate::Error::read)?)),
            Root::Objects(objects) => There::objects(objects),
        }
    }
}
