//! What an operating system offers to the programs of Phalanx: files below open folders, locks, processes and terminals.
//!
//! On Linux it is rustix, what std has for Unix, and functions for what other systems do in another way. On macOS it is as much of
//! the same interface as the programs use.
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod told;

#[cfg(target_os = "linux")]
pub use linux::{fs, hardening, process, signals, stdio};
#[cfg(target_os = "macos")]
pub use macos::{fs, hardening, process, signals, stdio};
#[cfg(unix)]
pub use rustix::{event, io, net, pipe, termios, thread};

/// What std has for one system only.
#[cfg(unix)]
pub mod os {
    pub use std::os::fd;
    pub use std::os::unix::{ffi, fs, net, process};
}
