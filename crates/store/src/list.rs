//! Lists of objects, page by page. A store that lies gives pages without end.

use crate::error::{self, wrong};
use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::io;
use std::sync::Arc;

/// So many pages in a row may be empty. Azure and Google give some where objects were deleted.
const EMPTY: usize = 1000;

/// Lists the objects of a store.
#[derive(Clone)]
pub struct Lists(Arc<dyn PaginatedListStore>);

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lists")
    }
}

impl Lists {
    /// The lists of a store.
    pub fn of(store: Arc<dyn PaginatedListStore>) -> Self {
        Self(store)
    }

    /// The list of a folder, which is empty for a whole bucket.
    pub fn folder(&self, folder: &Path) -> List {
        let prefix = (!folder.as_ref().is_empty()).then(|| format!("{folder}/"));
        List { lists: self.clone(), prefix, next: Some(None), pages: Pages::default() }
    }
}

/// A list that is being read.
pub struct List {
    lists: Lists,
    prefix: Option<String>,
    /// What the store calls the next page. The first one has no name; after the last one there is none.
    next: Option<Option<String>>,
    pages: Pages,
}

impl List {
    /// The next page. `None` after the last one.
    ///
    /// # Errors
    /// If the store fails, or its list does not end.
    pub async fn next(&mut self) -> io::Result<Option<Vec<ObjectMeta>>> {
        let Some(page_token) = self.next.take() else { return Ok(None) };
        let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
        let page = self.lists.0.list_paginated(self.prefix.as_deref(), options).await.map_err(error::of)?;
        self.next = page.page_token.filter(|token| !token.is_empty()).map(Some);
        if self.next.is_some() {
            self.pages.check(page.result.objects.iter().map(|object| (object.location.as_ref(), object.size)))?;
        }
        Ok(Some(page.result.objects))
    }
}

/// The pages of a list which others follow.
#[derive(Default)]
pub struct Pages {
    /// The entries that have come, as hashes: a page whose entries all look like others by chance never comes.
    seen: HashSet<u64>,
    hasher: RandomState,
    empty: usize,
}

impl Pages {
    /// Checks that a page brings something new, or is one of few that are empty.
    ///
    /// # Errors
    /// If not: then the list does not end.
    pub fn check(&mut self, entries: impl ExactSizeIterator<Item = impl Hash>) -> io::Result<()> {
        let (known, is_empty) = (self.seen.len(), entries.len() == 0);
        self.seen.extend(entries.map(|entry| self.hasher.hash_one(entry)));
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        match self.empty < EMPTY && (is_empty || self.seen.len() > known) {
            true => Ok(()),
            false => Err(wrong("the store's list does not end")),
        }
    }
}
