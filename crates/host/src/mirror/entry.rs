//! An entry of a source, as a manifest lists it.

use phalanx_core::tree::{Entry, Kind, Time};
use phalanx_kernels::keccak::sha3_256;
use phalanx_system::fs::{self, Birth, Stat};
use phalanx_system::os::fd::AsFd;
use phalanx_system::os::ffi::OsStrExt;
use std::ffi::OsStr;

/// An entry with the permissions and the time that it has now.
#[must_use]
pub fn entry(name: &OsStr, stat: &Stat, kind: Kind) -> Entry {
    Entry { name: name.as_bytes().to_vec(), mode: mode(stat), modified: modified(stat), kind }
}

/// A number for a file on its device, by which it is found again under another name. A new file may get the inode of a deleted
/// one, so the number is a hash of the inode and the time of birth. It is 0 if the file system does not tell that time.
#[must_use]
pub fn number(dir: impl AsFd, name: &OsStr) -> u64 {
    number_of(fs::birth(dir, name))
}

/// The [`number`] of an open file.
#[must_use]
pub fn number_of_open(file: impl AsFd) -> u64 {
    number_of(fs::birth_of_open(file))
}

fn number_of(birth: Option<Birth>) -> u64 {
    let Some(birth) = birth else { return 0 };
    let mut text = [0; 20];
    text[..8].copy_from_slice(&birth.inode.to_le_bytes());
    text[8..16].copy_from_slice(&birth.seconds.to_le_bytes());
    text[16..].copy_from_slice(&birth.nanoseconds.to_le_bytes());
    u64::from_le_bytes(sha3_256(&text)[..8].try_into().expect("8 bytes"))
}

/// The permissions in a file's mode.
#[must_use]
pub fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// When a file was modified.
#[must_use]
pub fn modified(stat: &Stat) -> Time {
    Time { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}
