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

/// A list that takes more bytes in memory is longer than any: that of 50 million objects whose names have 100 bytes.
const LONGEST: u64 = 8 << 30;
/// What an entry takes besides its names.
const ENTRY: u64 = 64;

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
        let objects = page.result.objects;
        if self.next.is_some() {
            let names = objects.iter().map(|object| object.location.as_ref().len()).sum();
            self.pages.check(objects.iter().map(|object| (object.location.as_ref(), object.size)), names)?;
        }
        Ok(Some(objects))
    }
}

/// The pages of a list which others follow.
pub struct Pages {
    /// The entries that have come, as hashes: a page whose entries all look like others by chance never comes.
    seen: HashSet<u64>,
    hasher: RandomState,
    empty: usize,
    /// How many bytes may still come.
    left: u64,
}

impl Default for Pages {
    fn default() -> Self {
        Self { seen: HashSet::new(), hasher: RandomState::new(), empty: 0, left: LONGEST }
    }
}

impl Pages {
    /// Checks that a page brings something new, or is one of few that are empty. Its names have so many bytes.
    ///
    /// # Errors
    /// If not: then the list does not end. If it is longer than any.
    pub fn check(&mut self, entries: impl ExactSizeIterator<Item = impl Hash>, names: usize) -> io::Result<()> {
        let bytes = names as u64 + entries.len() as u64 * ENTRY;
        self.left = self.left.checked_sub(bytes).ok_or_else(|| wrong("the store's list is longer than any"))?;
        let (known, is_empty) = (self.seen.len(), entries.len() == 0);
        self.seen.extend(entries.map(|entry| self.hasher.hash_one(entry)));
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        match self.empty < EMPTY && (is_empty || self.seen.len() > known) {
            true => Ok(()),
            false => Err(wrong("the store's list does not end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lies;
    use crate::runtime::wait;

    #[test]
    fn a_list_of_ever_new_names_comes_to_an_end() {
        let page = |number: usize| {
            format!(
                "<List><Contents><Key>dir/f/{number}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified>\
                 </Contents><NextContinuationToken>{number}</NextContinuationToken></List>"
            )
        };
        let mut list = lies::client(&lies::endless(page)).list().unwrap();
        list.pages.left = 100 * (ENTRY + 10);
        let mut pages = 0;
        let end = wait(async {
            while list.next().await?.is_some() {
                pages += 1;
            }
            Ok(())
        });
        assert_eq!(end.unwrap_err().to_string(), "the store's list is longer than any");
        assert!((100..110).contains(&pages), "{pages}");
    }
}
