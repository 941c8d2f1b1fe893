//! The commands, one in each file.

pub mod completions;
pub mod engines;
#[cfg(target_os = "linux")]
pub mod init;
pub mod inspect;
pub mod key;
mod key_copies;
mod key_names;
pub mod man;
pub mod mirror;
#[cfg(target_os = "linux")]
pub mod mount;
#[cfg(target_os = "linux")]
mod mount_objects;
#[cfg(not(target_os = "linux"))]
mod no_volumes;
pub mod protect;
mod range;
pub mod rekey;
mod salvage;
pub mod unprotect;
pub mod verify;
#[cfg(target_os = "linux")]
mod verify_volume;
pub mod version;
#[cfg(target_os = "linux")]
mod volume_age;
#[cfg(target_os = "linux")]
mod volume_content;
#[cfg(target_os = "linux")]
mod volume_file;
#[cfg(target_os = "linux")]
mod volume_tree;
mod volumes;

#[cfg(not(target_os = "linux"))]
use no_volumes::{verify_volume, volume_file, volume_tree};
