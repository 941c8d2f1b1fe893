//! The tests of the command. They are one program, so that it is compiled and linked only once.
//!
//! `cargo test --test it keys::` runs the tests of one module.

#[path = "../common/mod.rs"]
mod common;

mod age;
mod command;
mod cut_short;
mod engines;
mod errors;
mod files;
mod gpu;
mod gpu_driver;
mod guide;
mod help;
mod hostile;
mod hostile_folders;
mod hostile_leftovers;
mod idle;
mod inspect;
mod json;
mod keys;
mod kms;
mod locked_keys;
mod memory;
mod mirror;
mod mirror_attacks;
mod mirror_faults;
mod mirror_holes;
mod mirror_left_out;
mod mirror_model;
mod mirror_places;
mod mount;
mod mount_mirror;
mod passwords;
mod ranges;
mod readme;
mod rekey;
mod rekey_cut_short;
mod rekey_mirror;
mod rekey_reports;
mod rekey_two_faults;
mod removal;
mod removal_cut_short;
mod resume;
mod signatures;
mod signed_mirror_attacks;
mod signed_mirrors;
mod starting;
#[cfg(feature = "stores")]
mod stores;
mod trees;
mod unmount;
mod volume;
