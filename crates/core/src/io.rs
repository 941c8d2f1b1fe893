//! Reading whole buffers.

use crate::{Error, Result};
use std::io::{self, Read};

/// Reads until `buf` is full or the input ends, and returns the number of bytes.
///
/// # Errors
/// [`Error::Read`] if reading fails. An interrupted read is repeated.
pub fn read_full(input: &mut impl Read, buf: &mut [u8]) -> Result<usize> {
    let mut n = 0;
    while n < buf.len() {
        match input.read(&mut buf[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::Read(e)),
        }
    }
    Ok(n)
}
