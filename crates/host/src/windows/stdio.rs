//! Standard input, output and error. The parent process may have given none. Rust's runtime then takes an input for empty, and an
//! output for one that accepts everything.

use phalanx_system::console::show_utf8;
use phalanx_system::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::fs::File;
use std::io::{self, Write};

fn is_closed(end: &impl AsRawFd) -> bool {
    // Those that were not given are null, and a parent can also give an invalid one.
    end.as_raw_handle().is_null() || end.as_raw_handle().addr() == usize::MAX
}

/// Standard error must be open. Otherwise warnings would go unseen.
pub fn check_error() -> io::Result<()> {
    if is_closed(&io::stderr()) { Err(closed("error")) } else { Ok(()) }
}

/// Standard input, without a buffer.
pub fn input() -> io::Result<File> {
    if is_closed(&io::stdin()) { Err(closed("input")) } else { unbuffered(io::stdin().as_handle()) }
}

/// Standard output, without a buffer. A console shows the bytes as UTF-8.
pub fn output() -> io::Result<File> {
    if is_closed(&io::stdout()) {
        return Err(closed("output"));
    }
    show_utf8(io::stdout().as_handle());
    unbuffered(io::stdout().as_handle())
}

/// Writes a line to standard output.
pub fn write_line(line: &str) -> io::Result<()> {
    if is_closed(&io::stdout()) { Err(closed("output")) } else { writeln!(io::stdout().lock(), "{line}") }
}

fn closed(which: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, format!("standard {which} is closed"))
}

fn unbuffered(end: BorrowedFd<'_>) -> io::Result<File> {
    end.try_clone_to_owned().map(File::from)
}
