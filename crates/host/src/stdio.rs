//! Standard input, output and error. The parent process may have closed some of them.
//!
//! Rust's runtime opens `/dev/null` in place of closed ones. Then an input seems to be empty, and an output accepts
//! everything. So they are checked before the runtime starts.

use phalanx_system::os::fd::{AsFd, BorrowedFd};
use phalanx_system::stdio;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};

/// One bit for each of the three that is closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

#[cfg(any(target_os = "linux", target_os = "macos"))]
#[used]
// SAFETY: the loader calls each function of this section once, before `main`, and passes arguments that this one does
// not take. It only makes system calls and writes to an atomic, for which nothing of the runtime is needed.
#[expect(unsafe_code)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        for (number, fd) in [stdio::stdin(), stdio::stdout(), stdio::stderr()].into_iter().enumerate() {
            if phalanx_system::io::fcntl_getfd(fd).is_err() {
                CLOSED.fetch_or(1 << number, Ordering::Relaxed);
            }
        }
    }
    look
};

fn is_closed(number: i32) -> bool {
    CLOSED.load(Ordering::Relaxed) >> number & 1 == 1
}

/// Standard error must be open. Otherwise warnings would go unseen.
pub fn check_error() -> io::Result<()> {
    if is_closed(2) { Err(closed("error")) } else { Ok(()) }
}

/// Standard input, without a buffer.
pub fn input() -> io::Result<File> {
    if is_closed(0) { Err(closed("input")) } else { unbuffered(io::stdin().as_fd()) }
}

/// Standard output, without a buffer.
pub fn output() -> io::Result<File> {
    if is_closed(1) { Err(closed("output")) } else { unbuffered(io::stdout().as_fd()) }
}

/// Writes a line to standard output.
pub fn write_line(line: &str) -> io::Result<()> {
    if is_closed(1) { Err(closed("output")) } else { writeln!(io::stdout().lock(), "{line}") }
}

fn closed(which: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, format!("standard {which} is closed"))
}

fn unbuffered(end: BorrowedFd<'_>) -> io::Result<File> {
    let end = end.try_clone_to_owned()?;
    stdio::widen_pipe(&end);
    Ok(File::from(end))
}
