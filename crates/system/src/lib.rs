//! What an operating system offers to the programs of Phalanx: files below open folders, locks, processes and terminals.
//!
//! On Linux it is rustix, what std has for Unix, and functions for what other systems do in another way. On macOS and Windows it is
//! as much of the same interface as the programs use.
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod parent;
mod told;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use parent::parent;

#[cfg(target_os = "linux")]
pub use linux::{fs, hardening, process, signals, stdio};
#[cfg(target_os = "macos")]
pub use macos::{fs, hardening, process, signals, stdio};
#[cfg(unix)]
pub use rustix::{event, io, net, pipe, termios, thread};
#[cfg(unix)]
pub use unix::files;
#[cfg(windows)]
pub use windows::{console, files, fs, hardening, io, pipe, process, stdio};

/// What std has for one system only.
#[cfg(unix)]
pub mod os {
    pub use crate::unix::names as ffi;
    pub use std::os::fd;
    pub use std::os::unix::{fs, net, process};
}

/// What std has for one system only, and what it has for Unix and not for Windows.
#[cfg(windows)]
pub mod os {
    pub use crate::windows::names as ffi;

    /// Handles, under the names that Unix gives to descriptors.
    pub mod fd {
        pub use std::os::windows::io::{
            AsHandle as AsFd, AsRawHandle as AsRawFd, BorrowedHandle as BorrowedFd, OwnedHandle as OwnedFd,
        };
    }

    /// Files that are read and written at offsets.
    pub mod fs {
        pub use crate::windows::at::FileExt;
    }
}
