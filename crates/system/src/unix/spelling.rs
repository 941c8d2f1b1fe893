//! How names are spelled. Some file systems, and some folders, take several spellings for one name: `A` and `a`, or the forms of an accent.

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, statat};
use rustix::io::Result;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The name of a file in an open folder as it is stored there, for a name that was typed and the inode that it leads to. It is the typed
/// one where the folder distinguishes all names, cannot be read, or does not list the file.
#[must_use]
pub fn spelling(folder: impl AsFd, typed: &OsStr, inode: u64) -> OsString {
    let folder = folder.as_fd();
    let is_one_of_several = statat(folder, other_case(typed), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let stored = if is_one_of_several { listed(folder, typed, inode) } else { Ok(None) };
    stored.ok().flatten().unwrap_or_else(|| typed.to_owned())
}

/// Another spelling, if the name has a letter from a to z.
fn other_case(name: &OsStr) -> OsString {
    let turn =
        |byte: &u8| if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
    OsString::from_vec(name.as_bytes().iter().map(turn).collect())
}

/// The entry that has the name, or whose letters differ only in their case, or else the only one with the inode: which further
/// spellings are one name depends on the file system, and some tell other inodes here than for open files.
fn listed(folder: impl AsFd, typed: &OsStr, inode: u64) -> Result<Option<OsString>> {
    let lower = |name: &OsStr| name.to_str().map(str::to_lowercase);
    let (mut like, mut same) = (None, Vec::new());
    // The folder may have been opened only to reach its entries, which `Dir::read_from` would do again.
    let folder = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in Dir::new(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == typed {
            return Ok(Some(typed.to_owned()));
        }
        if lower(name).is_some_and(|name| Some(name) == lower(typed)) {
            like = Some(name.to_owned());
        } else if entry.ino() == inode {
            same.push(name.to_owned());
        }
    }
    Ok(like.or_else(|| if same.len() == 1 { same.pop() } else { None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn names_that_are_distinguished_are_as_they_were_typed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = File::open(dir.path()).unwrap();
        fs::write(dir.path().join("F.phx"), "").unwrap();
        let inode = fs::metadata(dir.path().join("F.phx")).unwrap().ino();
        for name in ["F.phx", "f.phx", "none", "1"] {
            assert_eq!(spelling(&folder, OsStr::new(name), inode), name);
        }
        // A file whose name differs only in its case is another one.
        fs::write(dir.path().join("f.PHX"), "").unwrap();
        assert_eq!(spelling(&folder, OsStr::new("F.phx"), inode), "F.phx");
        assert_eq!(spelling(&folder, OsStr::new("f.PHX"), 0), "f.PHX");
    }

    #[test]
    fn a_name_that_is_not_listed_as_it_was_typed_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let folder = rustix::fs::open(dir.path(), crate::fs::SEARCH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for name in ["Ä.phx", "other"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let inode = fs::metadata(dir.path().join("other")).unwrap().ino();
        let found = |name: &str, inode| listed(&folder, OsStr::new(name), inode).unwrap();
        assert_eq!(found("ä.PHX", 0).as_deref(), Some(OsStr::new("Ä.phx")));
        assert_eq!(found("ä.PHX", inode).as_deref(), Some(OsStr::new("Ä.phx")));
        assert_eq!(found("a\u{308}.phx", inode).as_deref(), Some(OsStr::new("other")));
        assert_eq!(found("a\u{308}.phx", 0), None);
        fs::hard_link(dir.path().join("other"), dir.path().join("second")).unwrap();
        assert_eq!(found("a\u{308}.phx", inode), None, "two have the inode");
    }
}
