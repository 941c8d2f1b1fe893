//! Processes: rustix, and what differs between systems.

pub use rustix::process::*;
use std::fs::read_to_string;

/// The process's file mode creation mask. It is read from the system's status file, because the system call can only
/// set it, which would disturb other threads. If it cannot be read, nobody else gets permissions.
#[must_use]
pub fn file_mask() -> u32 {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
}

/// How many files this process may open at once. `None` if there is no limit.
#[must_use]
pub fn most_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
