//! The mounts that this process sees, as the kernel lists them: proc_pid_mountinfo(5).

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where the kernel lists them.
pub(super) const PATH: &str = "/proc/self/mountinfo";

/// A mount. Its number belongs to another mount once it is gone, and so does its device once the file system is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub number: u64,
    /// The mount that it lies on.
    pub parent: u64,
    /// The device number of the file system. The major number is 0 if it has no disk.
    pub device: (u64, u64),
    pub path: PathBuf,
    pub is_fuse: bool,
}

/// The mounts of this process's namespace, the upper ones after those below them.
#[derive(PartialEq, Eq)]
pub(super) struct Table(Vec<Entry>);

impl Table {
    /// `None` if the kernel does not show them.
    pub fn read() -> Option<Self> {
        fs::read(PATH).ok().map(|list| Self::parse(&list))
    }

    fn parse(list: &[u8]) -> Self {
        Self(list.split(|b| *b == b'\n').filter_map(entry).collect())
    }

    /// The uppermost mount at a path without links.
    pub fn at(&self, path: &Path) -> Option<&Entry> {
        self.0.iter().rfind(|entry| entry.path == path)
    }

    pub fn numbered(&self, number: u64) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.number == number)
    }

    /// The first mount of a file system.
    pub fn of_device(&self, device: (u64, u64)) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.device == device)
    }

    /// Whether another mount covers all of this one or a folder in it.
    pub fn is_covered(&self, entry: &Entry) -> bool {
        self.0.iter().any(|other| other.parent == entry.number && other.number != entry.number)
    }
}

fn entry(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let number = |field: &[u8]| str::from_utf8(field).ok()?.parse().ok();
    let colon = fields.get(2)?.iter().position(|b| *b == b':')?;
    let (major, minor) = fields[2].split_at(colon);
    // After a hyphen: the type, the source, options.
    let kind = fields.iter().position(|field| *field == b"-").and_then(|at| fields.get(at + 1))?;
    Some(Entry {
        number: number(fields[0])?,
        parent: number(fields[1])?,
        device: (number(major)?, number(&minor[1..])?),
        path: unescaped(fields.get(4)?).into(),
        is_fuse: kind.starts_with(b"fuse"),
    })
}

/// Decodes a path of the list, in which some bytes are written as `\` and three octal digits.
fn unescaped(field: &[u8]) -> OsString {
    let (mut bytes, mut at) = (Vec::with_capacity(field.len()), 0);
    while let Some(byte) = field.get(at) {
        let octal = field.get(at + 1..at + 4).and_then(|digits| str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *byte == b'\\') {
            Some(escaped) => {
                bytes.push(escaped);
                at += 4;
            }
            None => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// The number of the mount that a descriptor lies on.
pub(super) fn mount_of(file: impl AsFd) -> Option<u64> {
    shown(file, "mnt_id")
}

/// The device number of the file system that a FUSE device serves. Old kernels do not show it.
pub(super) fn served_by(device: impl AsFd) -> Option<(u64, u64)> {
    shown(device, "fuse_connection").map(|minor| (0, minor))
}

/// A number that the kernel shows of a descriptor: proc_pid_fdinfo(5).
fn shown(file: impl AsFd, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uppermost_mount_counts() {
        let table = Table::parse(
            b"22 1 0:20 / / rw - ext4 /dev/a rw\n\
            40 22 0:30 / /mnt/a\\040b\\134 rw,nosuid shared:1 - fuse.phalanx x rw\n\
            41 22 0:31 / /mnt/c rw - fuse.x x rw\n\
            42 41 8:32 / /mnt/c rw - ext4 /dev/c rw\n\
            broken\n",
        );
        let found = |path: &str| table.at(Path::new(path)).map(|e| (e.number, e.parent, e.device.1, e.is_fuse));
        assert_eq!(found("/mnt/a b\\"), Some((40, 22, 30, true)));
        assert_eq!(found("/mnt/c"), Some((42, 41, 32, false)));
        assert_eq!(found("/mnt"), None);
        let is_covered = |number| table.is_covered(table.numbered(number).unwrap());
        assert_eq!([22, 40, 41, 42].map(is_covered), [true, false, true, false]);
        assert_eq!(table.of_device((0, 31)).map(|e| e.number), Some(41));
    }

    #[test]
    fn a_descriptor_shows_its_mount() {
        let root = fs::File::open("/").unwrap();
        let (table, number) = (Table::read().unwrap(), mount_of(&root).unwrap());
        // In a chroot, the root need not be a mount.
        assert!(table.at(Path::new("/")).is_none_or(|entry| entry.number == number));
        assert_eq!(served_by(&root), None);
    }
}
