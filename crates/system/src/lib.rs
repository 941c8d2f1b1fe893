//! What an operating system offers to the programs of Phalanx: files below open folders, locks, processes and terminals.
//!
//! On Unix it is rustix and what std has for Unix.

#[cfg(unix)]
pub use rustix::{event, fs, io, mm, net, pipe, process, stdio, termios, thread};

/// What std has for one system only.
#[cfg(unix)]
pub mod os {
    pub use std::os::fd;
    pub use std::os::unix::{ffi, fs, net, process};
}
