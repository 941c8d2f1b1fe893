//! The objects of a folder in a store that has no manifest: what there is to restore, as their names alone say it.

use super::is_of_manifest;
use super::listing::{Listing, State, UNKNOWN};
use crate::failure::{Code, Failure};
use crate::file::{ListedObject, unprotected_name};
use crate::folders::{RIVAL_HINT, SAME_NAME};
use crate::lines::shown;
use crate::transfer::tally::Tally;
use phalanx_core::tree::{Entry, FileEntry, Kind, Time};
use phalanx_system::os::ffi::OsStringExt;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// No file system takes longer names, in bytes.
const LONGEST: usize = 4096;

/// Lists all objects that have the names of protected files, with the folders that their names make. The objects are in the
/// order of their names. The others, and names that no file can have, go to the tally. `at` is the folder's URL, for messages.
#[must_use]
pub fn listing(objects: &[ListedObject], at: &Path, tally: &Tally) -> Listing {
    let (mut listing, mut open) = (Listing::default(), Vec::new());
    listing.push(&entry(b"", Kind::Folder), State::Unchanged);
    for object in objects {
        let path = below(at, &object.name);
        let fail = |line: &str| Failure::new(Code::InputOutput, format!("{}: {line}", shown(&path))).on(&path);
        let (folders, name) =
            object.name.rsplit_once('/').map_or(("", &*object.name), |(folders, name)| (folders, name));
        let Some(output_name) = unprotected_name(OsStr::new(name)) else {
            if !is_of_manifest(OsStr::new(&object.name)) {
                tally.leave_out(&path, "the name does not end in .phx");
            }
            continue;
        };
        if !object.name.split('/').all(is_plain) || !is_plain(&output_name.to_string_lossy()) {
            tally.fail(&fail("no file can have its name: left out"));
            continue;
        }
        let whole_output = object.name.strip_suffix(".phx").unwrap_or_default();
        if is_folder(objects, whole_output) {
            let rival = shown(&below(at, whole_output));
            tally.fail(&fail(&format!("{rival} {SAME_NAME}")).hint(RIVAL_HINT));
            continue;
        }
        enter(&mut listing, &mut open, folders);
        let (device, inode, contents) = (0, 0, UNKNOWN);
        let file = FileEntry { len: object.len, stored_len: object.len, device, inode, contents };
        listing.push(&entry(&output_name.into_vec(), Kind::File(file)), State::Unchanged);
    }
    (0..=open.len()).for_each(|_| listing.end_folder());
    listing
}

/// The URL of an object, for messages, whatever its name is.
fn below(at: &Path, name: &str) -> PathBuf {
    let mut url = at.as_os_str().to_owned();
    if !url.as_encoded_bytes().ends_with(b"/") {
        url.push("/");
    }
    url.push(name);
    url.into()
}

/// Whether a name can be that of an entry in a folder.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= LONGEST && !name.contains(['/', '\0'])
}

/// Whether there are protected files below this name.
fn is_folder(objects: &[ListedObject], name: &str) -> bool {
    let within = format!("{name}/");
    let from = objects.partition_point(|object| object.name < within);
    let mut below = objects[from..].iter().take_while(|object| object.name.starts_with(&within));
    below.any(|object| object.name.ends_with(".phx"))
}

/// Ends the open folders that are not on this path, and begins those on it that are not open.
fn enter<'a>(listing: &mut Listing, open: &mut Vec<&'a str>, folders: &'a str) {
    let wanted: Vec<&str> = folders.split('/').filter(|name| !name.is_empty()).collect();
    let same = open.iter().zip(&wanted).take_while(|(open, wanted)| open == wanted).count();
    for _ in open.drain(same..) {
        listing.end_folder();
    }
    for name in &wanted[same..] {
        listing.push(&entry(name.as_bytes(), Kind::Folder), State::Unchanged);
        open.push(name);
    }
}

/// An entry of which nothing is known but its name.
fn entry(name: &[u8], kind: Kind) -> Entry {
    Entry { name: name.to_vec(), mode: 0, modified: Time { seconds: 0, nanoseconds: 0 }, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that are listed, and the objects that are not.
    fn of(names: &[&str]) -> (Vec<String>, Vec<String>, u64) {
        let mut names = names.to_vec();
        names.sort();
        let objects: Vec<_> = names.iter().map(|name| ListedObject { name: (*name).into(), len: 7 }).collect();
        let tally = Tally::keeping();
        let listing = listing(&objects, Path::new("s3://b/d"), &tally);
        let paths = listing.all().skip(1).map(|id| listing.path(id).into_os_string().into_string().unwrap()).collect();
        let kept = tally.take();
        let failed = kept.failures.iter().map(|failure| failure.line().unwrap().to_owned()).collect();
        (paths, failed, kept.left_out.len() as u64)
    }

    #[test]
    fn names_make_folders() {
        let (paths, failed, left_out) =
            of(&["a.phx", "b/c.phx", "b/d/e.phx", "b/d2/f.phx", "b-.phx", "phalanx.tree", "x/readme", "z z/ü.phx"]);
        assert_eq!(paths, ["a", "b-", "b", "b/c", "b/d", "b/d/e", "b/d2", "b/d2/f", "z z", "z z/ü"]);
        assert_eq!((failed.len(), left_out), (0, 1));
    }

    #[test]
    fn what_would_lead_elsewhere_is_left_out() {
        let long = format!("{}.phx", "n".repeat(LONGEST));
        let hostile =
            ["../a.phx", "a/../../b.phx", "/etc/c.phx", "a//d.phx", "./e.phx", "..phx", "...phx", "f\0.phx", &long];
        let (paths, failed, left_out) = of(&hostile);
        assert_eq!(paths, Vec::<String>::new());
        assert_eq!(failed.len() as u64 + left_out, hostile.len() as u64, "{failed:?}");
    }

    #[test]
    fn of_a_file_and_a_folder_of_one_name_the_folder_is_taken() {
        let (paths, failed, _) = of(&["a.phx", "a/b.phx", "c.phx", "c.phx/d.phx", "c/readme"]);
        assert_eq!(paths, ["a", "a/b", "c", "c.phx", "c.phx/d"]);
        assert!(
            matches!(&failed[..], [line] if line.starts_with("s3://b/d/a.phx: s3://b/d/a is in its way")),
            "{failed:?}"
        );
    }
}
