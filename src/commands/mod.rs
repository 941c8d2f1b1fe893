//! The commands, each in a file.

pub mod completions;
pub mod engines;
pub mod inspect;
pub mod key;
mod key_copies;
pub mod man;
pub mod protect;
pub mod rekey;
mod salvage;
pub mod unprotect;
pub mod verify;
