//! The commands, one in each file.

pub mod completions;
pub mod engines;
pub mod init;
pub mod inspect;
pub mod key;
mod key_copies;
pub mod man;
pub mod mirror;
pub mod mount;
mod mount_objects;
pub mod protect;
mod range;
pub mod rekey;
mod salvage;
pub mod unprotect;
pub mod verify;
mod verify_volume;
pub mod version;
mod volume_age;
mod volume_file;
mod volume_tree;
mod volumes;
