//! The objects of a folder: all whose names begin with its name and a slash. They share one client.

use crate::client::Client;
use crate::error::{self, refusal, wrong};
use crate::location::{BAD_NAME, Location};
use crate::object::Object;
use crate::options::Options;
use crate::runtime::caught;
use crate::upload::Upload;
use futures_util::stream::{FuturesUnordered, StreamExt};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use phalanx_host::file::{InputObject, ListedObject, NewObject, ObjectFolder, OutputObject, Url};
use std::io;
use std::sync::Arc;

/// So many objects are deleted at the same time.
const DELETED: usize = 16;

/// After so many failures in a row no more is deleted.
const FAILURES: usize = 32;

/// A folder in a store. Nothing has been asked of the store yet.
#[derive(Debug)]
pub struct Folder {
    /// The client. Its key is the name of the folder, which is empty for a whole bucket.
    client: Client,
    url: Url,
    options: Options,
}

impl Folder {
    /// A folder.
    ///
    /// # Errors
    /// If the URL is none of a folder, or the client cannot be made.
    pub fn at(url: &Url, options: &Options) -> io::Result<Self> {
        let client = Client::new(&Location::of_folder(url)?, options)?;
        Ok(Self { client, url: url.clone(), options: options.clone() })
    }

    fn key(&self, name: &str) -> io::Result<Path> {
        let bad = |_| refusal(BAD_NAME);
        match self.client.key.as_ref() {
            "" => Path::parse(name).map_err(bad),
            folder => Path::parse(format!("{folder}/{name}")).map_err(bad),
        }
    }

    fn client(&self, name: &str) -> io::Result<Client> {
        Ok(self.client.of(self.key(name)?))
    }

    /// Whether the folder has objects.
    ///
    /// # Errors
    /// If the store fails.
    pub fn has_objects(&self) -> io::Result<bool> {
        self.client.wait(async {
            let mut list = self.client.list()?;
            while let Some(objects) = list.next().await? {
                if !objects.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    async fn listed(&self) -> io::Result<Vec<ListedObject>> {
        let folder = self.client.key.as_ref();
        let (mut list, mut found) = (self.client.list()?, Vec::new());
        while let Some(objects) = list.next().await? {
            for meta in objects {
                let name = match folder {
                    "" => Some(meta.location.as_ref()),
                    _ => meta.location.as_ref().strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
                };
                let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
                found.push(ListedObject { name: name.to_owned(), len: meta.size });
            }
        }
        let found = without_markers(found);
        if found.windows(2).any(|pair| pair[0].name == pair[1].name) {
            return Err(wrong("the store lists an object twice"));
        }
        Ok(found)
    }

    async fn deleted(&self, names: &[String]) -> Vec<(String, io::Error)> {
        let (mut deleting, mut failed, mut names) = (FuturesUnordered::new(), Vec::new(), names.iter());
        let mut in_a_row = 0;
        loop {
            if in_a_row >= FAILURES {
                let left = |name: &String| (name.clone(), io::Error::other("the store has failed for others"));
                failed.extend(names.by_ref().map(left));
            }
            while deleting.len() < DELETED
                && let Some(name) = names.next()
            {
                let client = self.client(name);
                deleting.push(async move { (caught(delete(client)).await, name) });
            }
            match deleting.next().await {
                Some((Err(error), name)) => {
                    in_a_row += 1;
                    failed.push((name.clone(), error));
                }
                Some((Ok(()), _)) => in_a_row = 0,
                None => return failed,
            }
        }
    }
}

/// Objects in the order of their names, without the empty ones that tools make for folders: `notes/`, whose slash the
/// client does not give.
fn without_markers(mut found: Vec<ListedObject>) -> Vec<ListedObject> {
    found.sort_by(|a, b| a.name.cmp(&b.name).then(b.len.cmp(&a.len)));
    let is_folder = |name: &str| {
        let below = format!("{name}/");
        let from = found.partition_point(|other| other.name < below);
        found.get(from).is_some_and(|other| other.name.starts_with(&below))
    };
    let is_second = |at: usize| at > 0 && found[at - 1].name == found[at].name;
    let is_marker = |at: usize| found[at].len == 0 && (is_second(at) || is_folder(&found[at].name));
    let mut markers = (0..found.len()).map(is_marker).collect::<Vec<_>>().into_iter();
    found.retain(|_| markers.next() != Some(true));
    found
}

async fn delete(client: io::Result<Client>) -> io::Result<()> {
    let client = client?;
    match client.store.delete(&client.key).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error::of(error)),
    }
}

impl ObjectFolder for Folder {
    fn list(&self) -> io::Result<Vec<ListedObject>> {
        self.client.wait(self.listed())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn InputObject>> {
        Ok(Arc::new(Object::of(self.client(name)?, &self.url.join(name), &self.options)?))
    }

    fn create(&self, name: &str, new: NewObject) -> io::Result<Box<dyn OutputObject>> {
        Ok(Box::new(Upload::of(self.client(name)?, &self.url.join(name), new, &self.options)?))
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.key(from)?, self.key(to)?);
        self.client.wait(async { self.client.store.copy(&from, &to).await.map_err(error::of) })
    }

    fn delete(&self, names: &[String]) -> Vec<(String, io::Error)> {
        let done = self.client.wait(async { Ok(self.deleted(names).await) });
        done.unwrap_or_else(|e| names.iter().map(|name| (name.clone(), io::Error::other(e.to_string()))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_folders_are_no_objects() {
        let listed = |all: &[(&str, u64)]| {
            let all = all.iter().map(|(name, len)| ListedObject { name: (*name).into(), len: *len }).collect();
            without_markers(all).into_iter().map(|object| (object.name, object.len)).collect::<Vec<_>>()
        };
        let found = listed(&[
            ("b.phx/phalanx.tree", 9),
            ("b.phx", 0),
            ("b.phx-x", 5),
            ("a", 0),
            ("a/b", 0),
            ("a/b/c", 0),
            ("d.phx", 0),
            ("d.phx", 7),
            ("e", 3),
            ("e/f", 1),
        ]);
        let wanted = [("a/b/c", 0), ("b.phx-x", 5), ("b.phx/phalanx.tree", 9), ("d.phx", 7), ("e", 3), ("e/f", 1)];
        assert_eq!(found, wanted.map(|(name, len)| (name.to_owned(), len)));
        // Of two that are not empty, neither is a marker.
        assert_eq!(listed(&[("g", 1), ("g", 2)]).len(), 2);
    }
}
