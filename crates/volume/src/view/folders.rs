//! Listing a folder: which of its entries are shown, and under which names.

use crate::tree::Kind;
use phalanx_host::file::is_temporary;
use rustix::fs::{self as sys, AtFlags, Dir, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ENDING: &[u8] = b".phx";

/// The name under which a protected file is shown. `None` if it has another ending, or if the rest is no valid file
/// name.
pub fn plain_name(stored: &OsStr) -> Option<OsString> {
    let name = stored.as_bytes().strip_suffix(ENDING)?;
    (!matches!(name, b"" | b"." | b"..")).then(|| OsStr::from_bytes(name).to_owned())
}

/// The name of the protected file that is shown under this name.
pub fn stored_name(name: &OsStr) -> OsString {
    let mut stored = name.to_owned();
    stored.push(OsStr::from_bytes(ENDING));
    stored
}

/// An entry that is shown, or is hidden by another one.
#[derive(Debug)]
pub struct Entry {
    pub ino: u64,
    pub kind: Kind,
    pub name: OsString,
    pub stored: OsString,
    /// Where the next one begins.
    pub next: u64,
    /// Whether a folder or link has its name.
    pub is_hidden_by_other: bool,
}

/// A folder that a program lists.
pub struct Listing {
    /// `None` for a folder that is made up.
    dir: Option<Dir>,
    /// The position after the last entry that was taken.
    at: u64,
    /// The next entry, if it has been read.
    ahead: Option<Entry>,
}

impl Listing {
    pub fn open(folder: &OwnedFd) -> io::Result<Self> {
        let folder = sys::openat(folder, ".", LISTED, Mode::empty())?;
        Ok(Self { dir: Some(Dir::new(folder)?), at: 0, ahead: None })
    }

    /// The empty list of a folder that is made up.
    pub fn made_up() -> Self {
        Self { dir: None, at: 0, ahead: None }
    }

    /// Goes to the [`Entry::next`] of an entry, or to the beginning: 0.
    pub fn go_to(&mut self, offset: u64) -> io::Result<()> {
        if self.at == offset {
            return Ok(());
        }
        self.ahead = None;
        if let Some(dir) = &mut self.dir {
            if offset == 0 {
                dir.rewind();
            } else {
                dir.seek(offset.cast_signed())?;
            }
        }
        self.at = offset;
        Ok(())
    }

    /// The next entry that is shown, or hidden by another one.
    pub fn peek(&mut self) -> io::Result<Option<&Entry>> {
        let Some(dir) = &mut self.dir else { return Ok(None) };
        while self.ahead.is_none() {
            let Some(entry) = dir.read() else { return Ok(None) };
            let entry = entry?;
            self.ahead = shown(dir, &entry)?;
        }
        Ok(self.ahead.as_ref())
    }

    /// Passes over the entry that [`Listing::peek`] has shown.
    pub fn pass(&mut self) {
        if let Some(entry) = self.ahead.take() {
            self.at = entry.next;
        }
    }
}

fn shown(dir: &Dir, entry: &sys::DirEntry) -> io::Result<Option<Entry>> {
    let stored = OsString::from_vec(entry.file_name().to_bytes().to_vec());
    let kind = match entry.file_type() {
        sys::FileType::Unknown => kind_of(dir, &stored)?,
        kind => Some(kind),
    };
    let (ino, next) = (entry.ino(), entry.offset().cast_unsigned());
    let as_it_is =
        |kind| Entry { ino, kind, name: stored.clone(), stored: stored.clone(), next, is_hidden_by_other: false };
    Ok(match kind {
        Some(sys::FileType::Directory) => Some(as_it_is(Kind::Folder)),
        Some(sys::FileType::Symlink) if !is_temporary(&stored) => Some(as_it_is(Kind::Link)),
        Some(sys::FileType::RegularFile) if !is_temporary(&stored) => match plain_name(&stored) {
            Some(name) => {
                let other = kind_of(dir, &name)?;
                let is_hidden_by_other = match other {
                    Some(sys::FileType::Directory) => true,
                    Some(sys::FileType::Symlink) => !is_temporary(&name),
                    _ => false,
                };
                Some(Entry { ino, kind: Kind::File, name, stored, next, is_hidden_by_other })
            }
            None => None,
        },
        _ => None,
    })
}

/// The type of the entry with this name in a folder, if there is one.
fn kind_of(dir: &Dir, name: &OsStr) -> io::Result<Option<sys::FileType>> {
    match sys::statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(sys::FileType::from_raw_mode(stat.st_mode))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_one_ending_and_stay_valid() {
        let plain = |name: &str| plain_name(OsStr::new(name));
        for (stored, name) in [("a.phx", "a"), ("a.phx.phx", "a.phx"), (".a.phx", ".a"), ("....phx", "...")] {
            assert_eq!(plain(stored).as_deref(), Some(OsStr::new(name)));
            assert_eq!(stored_name(OsStr::new(name)), stored);
        }
        for stored in [".phx", "..phx", "...phx", "a", "a.PHX", "a.phx ", ""] {
            assert_eq!(plain(stored), None, "{stored}");
        }
    }
}
