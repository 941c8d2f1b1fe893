//! The tests of the host's files, in one program.

#[path = "../../../core/tests/common/mod.rs"]
mod common;

mod again;
mod deep_folders;
mod ends;
mod rekey;
#[cfg(target_os = "linux")]
mod resume;
mod stored_manifest;
mod trusted_folders;
mod ways;
