//! Standard input, output and error: rustix, and what differs between systems.

pub use rustix::stdio::*;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Makes a pipe's buffer as large as any user's may be, so that both ends take fewer and longer turns.
pub fn widen_pipe(end: impl AsFd) {
    const PIPE: usize = 1 << 20;
    let _ = rustix::pipe::fcntl_setpipe_size(end, PIPE);
}

/// The path of the file that standard output is. `None` if it is no file.
#[must_use]
pub fn output_file() -> Option<PathBuf> {
    let is_file = || std::fs::metadata("/proc/self/fd/1").is_ok_and(|meta| meta.is_file());
    std::fs::read_link("/proc/self/fd/1").ok().filter(|_| is_file())
}
