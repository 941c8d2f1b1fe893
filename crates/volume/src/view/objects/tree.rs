//! The objects of a folder that has no manifest, as a tree.

use crate::view::folders::plain_name;
use phalanx_core::tree::{Entry, FileEntry, Kind, Time};
use phalanx_host::file::{ListedObject, is_temporary};
use phalanx_host::mirror::listing::{Listing, State, UNKNOWN};
use phalanx_host::mirror::there::{Objects, There};
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The longest name of an entry, in bytes. No file system has longer ones.
const LONGEST: usize = 255;
/// The most folders within each other. A path of the system cannot have more.
const DEEPEST: usize = 2048;

/// The tree of these objects, which are in the order of their names. `hidden` gets the names of protected files and folders
/// that cannot be shown, and why.
pub fn of_objects(objects: Vec<ListedObject>, hidden: impl Fn(&str, &str)) -> Listing {
    let (mut there, mut listing) = (There::Objects(Objects::new(objects)), Listing::default());
    listing.push(&folder(OsStr::new("")), State::Unchanged);
    // The names from the root to the current folder, and what is still to be added to each.
    let (mut names, mut todo): (Vec<String>, _) = (Vec::new(), vec![shown(&there, &[], &hidden).into_iter()]);
    while let Some(current) = todo.last_mut() {
        match current.next() {
            Some((name, true)) if names.len() < DEEPEST => {
                listing.push(&folder(&name), State::Unchanged);
                there.enter(&name);
                names.push(name.to_string_lossy().into_owned());
                todo.push(shown(&there, &names, &hidden).into_iter());
            }
            Some((name, true)) => hidden(&whole(&names, &name), "too many folders within each other"),
            Some((name, false)) => drop(listing.push(&file(&name), State::Unchanged)),
            None => {
                todo.pop();
                listing.end_folder();
                if names.pop().is_some() {
                    // Folders of objects can always be left.
                    let _ = there.leave();
                }
            }
        }
    }
    listing
}

/// The tree of a single object.
pub fn of_one(stored: &str) -> Listing {
    let (stored, mut listing) = (OsStr::new(stored), Listing::default());
    listing.push(&folder(OsStr::new("")), State::Unchanged);
    listing.push(&file(&plain_name(stored).unwrap_or_else(|| stored.to_owned())), State::Unchanged);
    listing.end_folder();
    listing
}

/// The entries of the current folder by the names under which they are shown, and whether each is a folder.
fn shown(there: &There, names: &[String], hidden: &impl Fn(&str, &str)) -> BTreeMap<OsString, bool> {
    let (folders, files): (Vec<_>, Vec<_>) = there
        .entries()
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, _)| !is_temporary(name))
        .partition(|(_, kind)| *kind == FileType::Directory);
    let mut shown = BTreeMap::new();
    for (name, _) in folders {
        match is_name(&name) {
            true => drop(shown.insert(name, true)),
            false => hidden(&whole(names, &name), NO_NAME),
        }
    }
    for (stored, _) in files {
        let Some(name) = plain_name(&stored) else { continue };
        match shown.contains_key(&name) {
            _ if !is_name(&name) => hidden(&whole(names, &stored), NO_NAME),
            true => hidden(&whole(names, &stored), "another entry has the name under which it would be shown"),
            false => drop(shown.insert(name, false)),
        }
    }
    shown
}

const NO_NAME: &str = "not shown: no file can have this name";

fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !matches!(bytes, b"" | b"." | b"..") && bytes.len() <= LONGEST && !bytes.contains(&0) && !bytes.contains(&b'/')
}

/// A name in the folder.
fn whole(names: &[String], name: &OsStr) -> String {
    names.iter().map(|folder| format!("{folder}/")).collect::<String>() + &name.to_string_lossy()
}

/// A store keeps neither permissions nor times. Only the user may read.
fn folder(name: &OsStr) -> Entry {
    Entry { name: name.as_bytes().to_vec(), mode: 0o500, modified: Time::default(), kind: Kind::Folder }
}

fn file(name: &OsStr) -> Entry {
    let file = FileEntry { len: 0, stored_len: 0, device: 0, inode: 0, contents: UNKNOWN };
    Entry { name: name.as_bytes().to_vec(), mode: 0o400, modified: Time::default(), kind: Kind::File(file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The tree of objects with these names, and what is hidden.
    fn tree(names: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut names: Vec<_> = names.iter().map(ToString::to_string).collect();
        names.sort();
        let objects = names.into_iter().map(|name| ListedObject { name, len: 1 }).collect();
        let hidden = RefCell::new(Vec::new());
        let listing = of_objects(objects, |name, _| hidden.borrow_mut().push(name.to_owned()));
        let path = |id| listing.path(id).to_str().unwrap().to_owned() + if listing.is_folder(id) { "/" } else { "" };
        (listing.all().map(path).collect(), hidden.into_inner())
    }

    #[test]
    fn objects_become_a_tree() {
        let (shown, hidden) = tree(&["b.phx", "a/x.phx", "a/c/y.phx", "phalanx.tree", "a.b.phx", "notes.txt"]);
        assert_eq!(shown, ["/", "a/", "a/c/", "a/c/y", "a/x", "a.b", "b"]);
        assert!(hidden.is_empty());
    }

    #[test]
    fn entries_are_in_the_order_of_the_names_that_are_shown() {
        // A lookup searches in this order. Stored, a+.phx comes before a.phx.
        assert_eq!(tree(&["a.phx", "a+.phx", "a-b/x.phx"]).0, ["/", "a", "a+", "a-b/", "a-b/x"]);
    }

    #[test]
    fn hostile_names_are_not_shown() {
        let long = "x".repeat(300) + ".phx";
        let (shown, hidden) = tree(&[
            "a//b.phx",
            "../c.phx",
            "./d.phx",
            "...phx",
            "..phx",
            ".phx",
            "/e.phx",
            &long,
            "f.phx",
            "nul\0.phx",
        ]);
        assert_eq!(shown, ["/", "a/", "f"]);
        assert_eq!(hidden, ["", ".", "..", "nul\0.phx", &long, "a/"]);
    }

    #[test]
    fn a_folder_hides_the_file_that_would_have_its_name() {
        let (shown, hidden) = tree(&["a.phx", "a/b.phx", "c", "c/d.phx", "e.phx", "e.phx/f.phx"]);
        assert_eq!(shown, ["/", "a/", "a/b", "c/", "c/d", "e", "e.phx/", "e.phx/f"]);
        assert_eq!(hidden, ["a.phx"]);
    }

    #[test]
    fn many_folders_within_each_other_end_somewhere() {
        let (shown, hidden) = tree(&[&("d/".repeat(5000) + "x.phx"), "y.phx"]);
        assert_eq!((shown.len(), hidden.len()), (DEEPEST + 2, 1));
    }
}
